# The command mlstm-sentiment on a CPU; docs/serve.md has the commands that build and run it.
FROM python:3.12-slim

# The compiler stays in the image: on a processor with other vector instructions than those of the
# machine that built it, the first start compiles the recurrence again.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu

WORKDIR /source
COPY pyproject.toml setup.py README.md LICENSE ./
COPY mlstm_sentiment mlstm_sentiment
RUN pip install --no-cache-dir ".[serve]"

RUN useradd --create-home sentiment
USER sentiment
WORKDIR /home/sentiment
RUN mlstm-sentiment classify --text "This compiles the recurrence."

EXPOSE 8000
HEALTHCHECK --start-period=30s --timeout=5s \
    CMD ["python", "-c", "import urllib.request as web; web.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["mlstm-sentiment"]
CMD ["serve", "--host", "0.0.0.0"]
