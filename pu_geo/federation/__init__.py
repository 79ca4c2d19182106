"""FedAwS between agencies: one project each, and nothing but weights on the wire. Flower carries the messages (extra
`federated`).
"""
