# The command mlstm-sentiment on a CPU; docs/serve.md has the commands that build and run it.
FROM python:3.12-slim

WORKDIR /source
COPY pyproject.toml setup.py README.md LICENSE ./
COPY mlstm_sentiment mlstm_sentiment
# The compiler builds the engine, which the installed package contains.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && pip install --no-cache-dir ".[serve,tables]" \
    && apt-get purge --yes --auto-remove gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home sentiment
USER sentiment
WORKDIR /home/sentiment
RUN mlstm-sentiment classify --text "This shows that it works."

EXPOSE 8000
HEALTHCHECK --start-period=30s --timeout=5s \
    CMD ["python", "-c", "import urllib.request as web; web.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["mlstm-sentiment"]
CMD ["serve", "--host", "0.0.0.0"]
