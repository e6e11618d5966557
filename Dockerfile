# ENPIRE with its page and its simulation: `docker build -t enpire .`, then `docker compose up`. CI runs these lines (.ci/image.py).
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN make ui && deploy/install /opt/enpire

FROM python:3.12-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap git libegl1 libgl1-mesa-dri \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home enpire \
    && install -d -o enpire -m 700 /var/lib/enpire
COPY --from=build /opt/enpire /opt/enpire
ENV PATH=/opt/enpire/bin:$PATH
USER enpire
WORKDIR /var/lib/enpire
ENTRYPOINT ["enpire"]
CMD ["--help"]
