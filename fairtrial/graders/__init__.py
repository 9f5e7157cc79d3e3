"""How answers are scored, each grader under a version of its own. No score comes in but by the door in score.py."""
