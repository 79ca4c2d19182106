"""What the Annotate screen says."""

from __future__ import annotations

# Random checks

SECOND_READER = "Second reader"
SECOND_READER_HELP = "Answer what others have answered, without seeing their answers."
AUDIT = ":material/fact_check: **Accuracy assessment: {done} of {drawn}, scores hidden**"
AUDIT_DONE = ":material/check_circle: **Accuracy assessment: all {drawn} answered.** The result is on the Damage map."
SEE_RESULT = "See the result"
STOP = ":material/fact_check: **Has enough been found?** {n} checked, {damaged} damaged, scores hidden. {words}"
AT_MOST_LEFT = "Damaged that may stay unfound"
LEAVE = "Leave assessment"
LEAVE_HELP = "Back to the search. Checks answered so far count, the first of their order. You can resume at any time."
RESUME = "Resume assessment"
BEGIN_STOP = "Has enough been found? Start random checks"
BEGIN_STOP_HELP = "Draws buildings without an answer evenly, without scores, until at most a few damaged ones can be left."
