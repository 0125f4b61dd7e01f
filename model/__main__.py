"""`python -m mlstm_sentiment`: the same as the command `mlstm-sentiment`."""

from .commands.command_line import main

if __name__ == "__main__":
    main()
