# syntax=docker/dockerfile:1
# A worker of a cluster: docs/deploy.md. Build it with
#   docker build --build-arg SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)" -t penstock .
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS java
# hadolint ignore=DL3008
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log

FROM java AS build
ARG SOURCE_DATE_EPOCH=0
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
RUN python -m venv /opt/penstock
COPY requirements/runtime.txt requirements/runtime.txt
RUN /opt/penstock/bin/pip install --no-cache-dir --no-compile --require-hashes -r requirements/runtime.txt
COPY pyproject.toml README.md ./
COPY src src
RUN /opt/penstock/bin/pip install --no-cache-dir --no-compile --no-deps --no-build-isolation . \
 && /opt/penstock/bin/penstock jars spark --to /opt/penstock/jars
COPY packaging/image packaging/image
RUN /opt/penstock/bin/python packaging/image/slim.py /opt/penstock/lib/python3.11/site-packages \
 && /opt/penstock/bin/pip uninstall --yes hatchling editables setuptools wheel pip \
 && python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/penstock/lib/python3.11/site-packages

FROM java
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="penstock" \
      org.opencontainers.image.description="Kafka Connect's distributed mode in Python, its data pipeline on Spark" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN groupadd --gid 1001 penstock \
 && useradd --uid 1001 --gid 1001 --home-dir /var/lib/penstock --create-home --shell /usr/sbin/nologin penstock \
 && mkdir -p /etc/penstock/connectors
COPY --from=build /opt/penstock /opt/penstock
ENV PATH=/opt/penstock/bin:${PATH} \
    HOME=/var/lib/penstock \
    PENSTOCK_HOME=/var/lib/penstock \
    PENSTOCK_DATA=/var/lib/penstock \
    PENSTOCK_JARS=/opt/penstock/jars \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
VOLUME /var/lib/penstock
WORKDIR /var/lib/penstock
EXPOSE 8083
USER 1001:1001
HEALTHCHECK --interval=20s --timeout=20s --start-period=120s --retries=4 \
  CMD ["penstock", "container", "health"]
ENTRYPOINT ["tini", "--", "penstock"]
CMD ["container"]
