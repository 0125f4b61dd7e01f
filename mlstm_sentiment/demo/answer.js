"use strict";
// The one answer for a text, as mlstm_sentiment/head/answers.py gives it.

const sigmoid = (odds) => 1 / (1 + Math.exp(-odds));

// Whether neutral is the likeliest of the three answers, if there are three: the threshold is the
// even split of the two sides.
function isNeutral({ threshold }, { odds, neutral }) {
  if (neutral === null) return false;
  const split = Math.log(threshold) - Math.log1p(-threshold);
  return sigmoid(neutral) > sigmoid(-neutral) * sigmoid(Math.abs(odds - split));
}

// Unfamiliar, neutral, unsure, or one of the two classes: the first that holds. frame: how many bytes
// the text profile adds.
function wordOf(head, verdict, frame) {
  const { classes, threshold, unsure, shortest } = head;
  const { odds, isUnfamiliar, characters } = verdict;
  if (characters - frame < shortest || isUnfamiliar) return "unfamiliar";
  if (isNeutral(head, verdict)) return "neutral";
  const probability = sigmoid(odds);
  if (unsure[0] <= probability && probability <= unsure[1]) return "unsure";
  return classes[probability > threshold ? 1 : 0];
}
