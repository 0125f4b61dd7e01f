"""From reviews to tokens on disk to lanes. Of `model`, only how texts are read and stored."""
