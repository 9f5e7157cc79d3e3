"""The router with the change under test: every word it knows votes, and it knows more of them."""

import sys

WORDS = {
    "billing": "charged invoice receipt payment price refund card pay paid money bill discount vat unpaid bank",
    "delivery": "parcel package courier tracking box driver ship shipment arrived items order collect",
    "account": "password account login log sign signs profile code locked user delete",
}

text = sys.stdin.read().lower()
words = "".join(letter if letter.isalpha() else " " for letter in text).split()
votes = {topic: sum(word in known.split() for word in words) for topic, known in WORDS.items()}
best = max(votes, key=votes.get)
print(best if votes[best] else "other")
