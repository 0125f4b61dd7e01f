"""The server of `mlstm-sentiment serve`: a page and an endpoint, on starlette and uvicorn."""
