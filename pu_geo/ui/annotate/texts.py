"""What the Annotate screen says."""

from __future__ import annotations

from pu_geo.wording import percent, plural

TITLE = "Annotate"
PURPOSE = (
    "Click the buildings that are damaged; click again to clear. Right click or 2: not damaged. 3: not assessable. "
    "4, 5, 6: damaged, with a grade. Ctrl+Z undoes. You need not mark undamaged ones."
)
NOTHING = "There is nothing to review yet: this project needs a post-event scene and footprints."
ADD_IMAGERY = "Add imagery"
NEXT_TRAIN = "Next: Train"

RANKED_PART = "**{n:,} of {all:,} ranked**: others may rank higher."
RANKED_PART_HELP = (
    "Ranked by the newest answers: a drawn sample, and what was answered. The rest follows; you can label meanwhile."
)
RANKED_FAILED = "{words} It was interrupted ({problem}) and is tried again."
RANKED_NO_MORE = "**Ranked in part**; the rest waits for your next answer."
RANKED_NO_MORE_HELP = (
    "The other buildings are not being ranked now: this server ranks newer answers, or other projects. It goes on with "
    "your next answer."
)
SILENT = ":material/info: **Some sites have no answers yet**"
RANKING = "**Ranking {n:,} buildings**; you can label meanwhile."
RANKING_HELP = "Scores and the next buildings come once that is done."

# Analysts

ANALYSTS = "Analysts"
ANALYSTS_HELP = "Who labeled how much, and where two answers differ."
CONFLICT = ":orange[Building {number:,}] · {answers}"
TEAM = {"analyst": "Analyst", "labels": "Answers", "last": "Last one"}


def agreement(n: int, share: float) -> str:
    """Return on how many buildings several analysts answered, and how far they agree."""
    return f"{plural(n, 'building')} answered by two or more analysts; on {percent(share)} of them all agree."


# Progress

PROGRESS = "Progress"
CURVE_X = "answers"
CURVE_Y = "damaged found"
CURVE_NAME = "damaged"

# The queue

QUEUE = "Queue settings"
QUEUE_HELP = "What the queue is mixed of, and when to stop."
KINDS = {
    "exploit": ("Likely damaged", "The highest scores that nobody has answered."),
    "explore": ("Something new", "Buildings unlike those answered so far, at least 80 m from each other."),
    "audit": ("Random picks", "Drawn at random, so that the number damaged can be estimated. Nothing learns from them."),
}
ALL_ZERO = ":orange[All are 0, so the usual mix is taken.]"
MIX = "Shares of the next queue. 80, 10 and 10 found damage fastest in trials that also estimated how much is left."

# Grades

GRADES = "Grades"
GRADE_KEY = "Key"
GRADE_NAME = "Grade"
GRADE_CLASS = "In exports"
GRADE_NEW = "New grade"
GRADE_OFF = "off"
GRADES_NOTE = (
    "The worst first. A new name keeps the buildings already graded; *off* takes a grade off the scale, and its buildings "
    "keep it. A training learns from them only where you choose them as its damage types."
)
GRADES_SAVE = "Save the scale"

# Accuracy assessments and completeness tests

SECOND_READER = "Second reader"
SECOND_READER_HELP = "Answer what others have answered, without seeing their answers."
AUDIT = ":material/fact_check: **Accuracy assessment: {done} of {drawn}, scores hidden**"
AUDIT_GAPS = ":material/fact_check: **Accuracy assessment: {done} of {drawn}, {counted} count so far, scores hidden**"
AUDIT_DONE = ":material/check_circle: **Accuracy assessment: all {drawn} answered**"
CHECKS_FIRST = (
    "An accuracy assessment is answered without scores, and nothing else is labeled meanwhile. Answer or leave it first."
)
TO_CHECKS = "To the accuracy assessment"
AUDIT_DONE_HELP = "The result is on the Damage map."
SEE_RESULT = "See the result"
STOP = ":material/fact_check: **Completeness test:** {n} answered, {damaged} damaged, **{state}**, scores hidden"
STOP_MORE, STOP_ENOUGH, STOP_VOID = "{n:,} more to answer", "enough", "void"
AT_MOST_LEFT = "Damaged that may stay unfound"
LEAVE = "Leave assessment"
LEAVE_HELP = "Back to the search. Checks answered so far count, the first of their order. You can resume at any time."
LEAVE_STOP = "Leave completeness test"
LEAVE_STOP_HELP = (
    "Back to the search. The first label there makes this test void, and you start a new one later. The answers stay."
)
END = "End for everyone"
END_HELP = "{names} did not leave yet. Answers so far stay; those that count are the first of the order."
RESUME = "Resume assessment"
RESUME_STOP = "Back to the completeness test"
BEGIN_STOP = "Has enough been found? Start a completeness test"
BEGIN_STOP_HELP = "Draws buildings without an answer evenly, without scores, until at most a few damaged ones can be left."
