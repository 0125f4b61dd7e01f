"""From texts to a shuffled, split corpus, in bounded memory."""
