"""What the frame around every screen says."""

from __future__ import annotations

from pu_geo.wording import when

ANALYST = "Analyst"
ANALYST_HELP = (
    "Stored with each of your answers and exported with it. Yours is a made-up name until you choose another; it is kept "
    "in this page's address."
)
NO_PROJECT = "No project open"
CUT_AGAIN = "Cut chips again"
MANAGE_PROJECTS = "All projects"
NEEDS_PROJECT = "No project is open yet."
OPEN_PROJECT = "Open a project"
STATES = {"done": ":green[:material/check:]", "next": ":blue-badge[next]", "open": "", "blocked": ":gray[:material/lock:]"}
"""The sign behind the name of a step; screen readers read its name."""

NOT_LET_IN = (
    "PU-Geo does not know this browser yet. Open the address that PU-Geo printed in its terminal; it ends in ?token= and a "
    "secret. If you opened that address already, allow cookies for 127.0.0.1. Other accounts of this machine can reach "
    "this page, so PU-Geo lets in only who has that address."
)
OTHER_SITE = (
    "Another website's page asked for this, so PU-Geo refused. Open PU-Geo in a tab of its own, by the address that it "
    "printed in its terminal."
)
NOT_MADE = (
    "The file could not be made: {why}. See that the disk has room and can be read, then go back and click the button again."
)
TOO_LONG = "Nothing of a message of more than {most:,} bytes was stored."
SHORTER = "Send it in shorter messages."
TOO_SLOW = "A message did not arrive within {seconds:.0f} s, so nothing of it was stored."
SENT_AGAIN = "It is sent again; you can go on."
TOO_MANY_UPLOADS = (
    "Open tabs hold more than {mb:,} MB of uploaded files. Close some of them, or name the files by their path."
)
WRONG_HOST = (
    "PU-Geo is served on this machine as 127.0.0.1 or localhost alone. Open the address that it printed in its terminal."
)


# A damaged project, and one that may not be changed

DAMAGED = "This project's database is damaged. It is neither read nor written to: no answer is stored in it any more."
SAVE_LABELS = "Save the labels"
SAVE_LABELS_HELP = (
    "A CSV file with the whole history of labels from the journal. A project with the same buildings can import it."
)
LABELS_FILE = "labels.events.csv"
RESTORE_HELP = "With all newer labels from the journal. The damaged project stays as it is. Chips and runs are taken over."
ELSEWHERE = (
    "Another installation of PU-Geo made {name}. It can be viewed and exported; answers and jobs wait until you say that "
    "you trust where it comes from."
)
LOOK_AT_IT = "What is in it, and work in it"
TRUST = "I trust where this comes from"
READ_ONLY = (
    "You may not write to {folder}: this project can be viewed and exported, not changed. To change it, copy the folder "
    "to where you may write."
)


def restore(made_at: str) -> str:
    """Return the words of the button that restores a project; `made_at` is the newest backup's, "" if there is none."""
    return f"Restore the backup of {when(made_at)} into a new folder" if made_at else "There is no backup to restore"


FOOTPRINTS_CHANGED = "The footprints of this project changed. Reload the page: this was asked for those of before."
