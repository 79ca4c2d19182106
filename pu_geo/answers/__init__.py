"""What people say of buildings: labels, the live ranking, the queue, import and export of labels."""
