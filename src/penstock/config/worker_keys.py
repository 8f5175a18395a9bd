"""The settings of a worker, a `Key` each (kafka-connect.md §2); `worker` reads them.

Names, types, defaults and checks are those of Kafka Connect 4.2.0.
"""

from __future__ import annotations

from typing import Final

from penstock.config.checks import (
    at_least,
    between,
    broker_default_or_positive_partitions,
    broker_default_or_positive_replication,
    checking,
    entries,
    one_of,
)
from penstock.config.define import (
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    PASSWORD,
    SHORT,
    STRING,
    UNIQUE_LIST,
    ConfigDef,
    Key,
)
from penstock.config.listeners import bad_header_rules, bad_listener, bad_listeners
from penstock.config.restart import RESTART
from penstock.config.tracing import TRACE
from penstock.config.worker_checks import (
    CONNECT_PROTOCOLS,
    bad_connect_protocol,
    bad_verification_algorithms,
    key_size_fits,
    missing_rest_extensions,
    signature_is_accepted,
    unsupported_mac,
)

MAX_INT: Final = 2**31 - 1

BOOTSTRAP_SERVERS = Key(
    "bootstrap.servers",
    UNIQUE_LIST,
    importance=HIGH,
    check=entries(may_be_empty=False),
    doc="Kafka brokers (host:port) to connect to first. The only setting that the clients of all "
    "tasks inherit unchanged.",
)
CLIENT_DNS_LOOKUP = Key(
    "client.dns.lookup",
    STRING,
    default="use_all_dns_ips",
    check=one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    doc="Whether clients try every address that a broker's name resolves to, or first replace the "
    "names in bootstrap.servers with canonical ones.",
)
KEY_CONVERTER = Key(
    "key.converter",
    CLASS,
    importance=HIGH,
    doc="Converter for record keys, used by every connector that does not name its own."
    " Settings that start with 'key.converter.' are its configuration.",
)
KEY_CONVERTER_VERSION = Key(
    "key.converter.plugin.version",
    STRING,
    default=None,
    importance=LOW,
    doc="Version, or range of versions, of the key converter; unset uses the newest.",
)
VALUE_CONVERTER = Key(
    "value.converter",
    CLASS,
    importance=HIGH,
    doc="Converter for record values, used by every connector that does not name its own."
    " Settings that start with 'value.converter.' are its configuration.",
)
VALUE_CONVERTER_VERSION = Key(
    "value.converter.plugin.version",
    STRING,
    default=None,
    importance=LOW,
    doc="Version, or range of versions, of the value converter; unset uses the newest.",
)
TASK_SHUTDOWN_TIMEOUT = Key(
    "task.shutdown.graceful.timeout.ms",
    LONG,
    default=5_000,
    importance=LOW,
    doc="How long tasks, all together, may take to stop, in milliseconds. Those that take longer "
    "are abandoned.",
)
OFFSET_FLUSH_INTERVAL = Key(
    "offset.flush.interval.ms",
    LONG,
    default=60_000,
    importance=LOW,
    doc="Time between two commits of a task's offsets, in milliseconds.",
)
OFFSET_FLUSH_TIMEOUT = Key(
    "offset.flush.timeout.ms",
    LONG,
    default=5_000,
    importance=LOW,
    doc="Timeout of an offset commit, in milliseconds; after it, the commit is aborted and "
    "retried at the next interval. Not used by exactly-once sources.",
)
PLUGIN_PATH = Key(
    "plugin.path",
    UNIQUE_LIST,
    default=None,
    importance=LOW,
    check=entries(may_be_empty=False),
    doc="Directories with plugins, in addition to those installed with the worker. Placeholders are"
    " not resolved in this setting.",
)
PLUGIN_DISCOVERY = Key(
    "plugin.discovery",
    STRING,
    default="hybrid_warn",
    importance=LOW,
    check=one_of("ONLY_SCAN", "SERVICE_LOAD", "HYBRID_WARN", "HYBRID_FAIL", ignore_case=True),
    doc="How plugins are found: by scanning all classes, by what packages declare, or both, with "
    "a warning or a failure if a plugin is not declared.",
)
METRICS_SAMPLE_WINDOW = Key(
    "metrics.sample.window.ms",
    LONG,
    default=30_000,
    importance=LOW,
    check=at_least(0),
    doc="Length of one sample of a metric, in milliseconds.",
)
METRICS_NUM_SAMPLES = Key(
    "metrics.num.samples",
    INT,
    default=2,
    importance=LOW,
    check=at_least(1),
    doc="Number of samples a metric is computed from.",
)
METRICS_RECORDING_LEVEL = Key(
    "metrics.recording.level",
    STRING,
    default="INFO",
    importance=LOW,
    check=one_of("INFO", "DEBUG"),
    doc="The most detailed level of metrics that are recorded.",
)
METRIC_REPORTERS = Key(
    "metric.reporters",
    UNIQUE_LIST,
    default=("org.apache.kafka.common.metrics.JmxReporter",),
    importance=LOW,
    check=entries(),
    doc="Classes that report metrics. The default is accepted for compatibility.",
)
HEADER_CONVERTER = Key(
    "header.converter",
    CLASS,
    default="org.apache.kafka.connect.storage.SimpleHeaderConverter",
    importance=LOW,
    doc="Converter for record headers, used by every connector that does not name its own."
    " Settings that start with 'header.converter.' are its configuration.",
)
HEADER_CONVERTER_VERSION = Key(
    "header.converter.plugin.version",
    STRING,
    default=None,
    importance=LOW,
    doc="Version, or range of versions, of the header converter; unset uses the newest.",
)
CONFIG_PROVIDERS = Key(
    "config.providers",
    UNIQUE_LIST,
    default=(),
    importance=LOW,
    check=entries(),
    doc="Names of the providers that placeholders of the form ${provider:path:key} may use. Each "
    "is configured by 'config.providers.NAME.class' and 'config.providers.NAME.param.*'.",
)
OVERRIDE_POLICY = Key(
    "connector.client.config.override.policy",
    STRING,
    default="All",
    doc="Which settings of its Kafka clients a connector may override with 'producer.override.',"
    " 'consumer.override.' and 'admin.override.': All, None, Principal or Allowlist.",
)
OVERRIDE_ALLOWLIST = Key(
    "connector.client.config.override.allowlist",
    UNIQUE_LIST,
    default=(),
    doc="The client settings that a connector may override under the Allowlist policy.",
)
TOPIC_CREATION_ENABLE = Key(
    "topic.creation.enable",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether to create topics for source connectors with 'topic.creation.' settings.",
)
TOPIC_TRACKING_ENABLE = Key(
    "topic.tracking.enable",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether to track the topics that each connector uses.",
)
TOPIC_TRACKING_ALLOW_RESET = Key(
    "topic.tracking.allow.reset",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether users may reset the tracked topics of a connector.",
)

SSL: Final = (
    Key("ssl.protocol", STRING, "TLSv1.3", doc="TLS version to start negotiating with."),
    Key("ssl.provider", STRING, None, doc="Security provider; unset: the platform's."),
    Key(
        "ssl.cipher.suites",
        UNIQUE_LIST,
        (),
        LOW,
        "Cipher suites that may be used; empty allows all that are available.",
        entries(),
    ),
    Key(
        "ssl.enabled.protocols",
        UNIQUE_LIST,
        ("TLSv1.2", "TLSv1.3"),
        doc="TLS versions that may be used.",
        check=entries(),
    ),
    Key("ssl.keystore.type", STRING, "JKS", doc="Format of the key store: JKS, PKCS12 or PEM."),
    Key("ssl.keystore.location", STRING, None, HIGH, "File with the private key."),
    Key("ssl.keystore.password", PASSWORD, None, HIGH, "Password of the key store."),
    Key("ssl.key.password", PASSWORD, None, HIGH, "Password of the private key."),
    Key("ssl.keystore.key", PASSWORD, None, HIGH, "The private key, as PEM."),
    Key(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        HIGH,
        "The certificate chain, as PEM.",
    ),
    Key(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        HIGH,
        "The trusted certificates, as PEM.",
    ),
    Key("ssl.truststore.type", STRING, "JKS", doc="Format of the trust store."),
    Key("ssl.truststore.location", STRING, None, HIGH, "File with the trusted certificates."),
    Key("ssl.truststore.password", PASSWORD, None, HIGH, "Password of the trust store."),
    Key("ssl.keymanager.algorithm", STRING, "SunX509", LOW, "Ignored."),
    Key("ssl.trustmanager.algorithm", STRING, "PKIX", LOW, "Ignored."),
    Key(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        LOW,
        "How a server's name is checked against its certificate; empty: not checked.",
    ),
    Key("ssl.secure.random.implementation", STRING, None, LOW, "Ignored."),
    Key("ssl.engine.factory.class", CLASS, None, LOW, "Ignored."),
)
"""The client TLS settings. The REST server reads them too, unless any setting starts with
`listeners.https.`, or for admin listeners `admin.listeners.https.` (kafka-connect.md §1.1)."""

LISTENERS = Key(
    "listeners",
    LIST,
    default=("http://:8083",),
    importance=LOW,
    check=checking("URLs of the form protocol://host:port", bad_listeners),
    doc="Addresses the REST API listens on, over http or https. An empty host means all "
    "interfaces.",
)
REST_ADVERTISED_HOST = Key(
    "rest.advertised.host.name",
    STRING,
    default=None,
    importance=LOW,
    doc="Host name under which other workers reach this one; unset: that of the listener.",
)
REST_ADVERTISED_PORT = Key(
    "rest.advertised.port",
    INT,
    default=None,
    importance=LOW,
    doc="Port under which other workers reach this one; unset: that of the listener.",
)
REST_ADVERTISED_LISTENER = Key(
    "rest.advertised.listener",
    STRING,
    default=None,
    importance=LOW,
    check=one_of("http", "https", ignore_case=True),
    doc="Protocol by which other workers reach this one, http or https; unset prefers http.",
)
ACCESS_CONTROL_ALLOW_ORIGIN = Key(
    "access.control.allow.origin",
    STRING,
    default="",
    importance=LOW,
    doc="Origin from which pages may use the REST API, or '*'; empty refuses other origins.",
)
ACCESS_CONTROL_ALLOW_METHODS = Key(
    "access.control.allow.methods",
    STRING,
    default="",
    importance=LOW,
    doc="Methods that pages of other origins may use; empty: GET, POST and HEAD.",
)
RESPONSE_HEADERS = Key(
    "response.http.headers.config",
    STRING,
    default="",
    importance=LOW,
    check=checking("rules of the form 'action name:value', comma separated", bad_header_rules),
    doc="Headers to add to every REST response. A rule is an action (set, add, setDate or addDate),"
    " a space, and name:value; put a rule that contains a comma in double quotes.",
)
SSL_CLIENT_AUTH = Key(
    "ssl.client.auth",
    STRING,
    default="none",
    importance=LOW,
    check=one_of("required", "requested", "none"),
    doc="Whether https clients of the REST server need a certificate.",
)
REST_EXTENSION_CLASSES = Key(
    "rest.extension.classes",
    UNIQUE_LIST,
    default=(),
    importance=LOW,
    check=checking("empty", missing_rest_extensions),
    doc="Extensions of the REST API are Java classes, which penstock does not run: a worker that "
    "configures one does not start.",
)
ADMIN_LISTENERS = Key(
    "admin.listeners",
    LIST,
    default=None,
    importance=LOW,
    check=checking("URLs of the form protocol://host:port", bad_listener),
    doc="Addresses the admin endpoints listen on; unset puts them on the main listeners, empty"
    " turns them off.",
)

CONFIG_STORAGE_PREFIX: Final = "config.storage."

OFFSET_STORAGE_PREFIX: Final = "offset.storage."

STATUS_STORAGE_PREFIX: Final = "status.storage."

GROUP_ID = Key(
    "group.id",
    STRING,
    importance=HIGH,
    doc="Name of the Connect cluster: workers with the same value form a cluster. It is a Kafka "
    "group and must differ from every consumer group.",
)
SESSION_TIMEOUT = Key(
    "session.timeout.ms",
    INT,
    default=10_000,
    importance=HIGH,
    doc="A worker that sends no heartbeat for this long is removed from the group, in "
    "milliseconds. The broker limits the values that it accepts.",
)
REBALANCE_TIMEOUT = Key(
    "rebalance.timeout.ms",
    INT,
    default=60_000,
    importance=HIGH,
    doc="How long each worker may take to join a rebalance, in milliseconds.",
)
HEARTBEAT_INTERVAL = Key(
    "heartbeat.interval.ms",
    INT,
    default=3_000,
    importance=HIGH,
    doc="Time between heartbeats, in milliseconds; at most a third of session.timeout.ms.",
)
EXACTLY_ONCE_SOURCE_SUPPORT = Key(
    "exactly.once.source.support",
    STRING,
    default="disabled",
    importance=HIGH,
    check=one_of("DISABLED", "ENABLED", "PREPARING", ignore_case=True),
    doc="Whether source tasks write records and offsets in transactions. To turn it on in a running"
    " cluster, first set 'preparing' on every worker, then 'enabled'.",
)
METADATA_MAX_AGE = Key(
    "metadata.max.age.ms",
    LONG,
    default=300_000,
    importance=LOW,
    check=at_least(0),
    doc="After how long metadata is refreshed even if nothing changed, in milliseconds.",
)
CLIENT_ID = Key(
    "client.id",
    STRING,
    default="",
    importance=LOW,
    doc="Part of the names of the worker's own clients in broker logs and metrics.",
)
SEND_BUFFER = Key(
    "send.buffer.bytes",
    INT,
    default=131_072,
    check=at_least(-1),
    doc="TCP send buffer, in bytes; -1: the system's default.",
)
RECEIVE_BUFFER = Key(
    "receive.buffer.bytes",
    INT,
    default=32_768,
    check=at_least(-1),
    doc="TCP receive buffer, in bytes; -1: the system's default.",
)
RECONNECT_BACKOFF = Key(
    "reconnect.backoff.ms",
    LONG,
    default=50,
    importance=LOW,
    check=at_least(0),
    doc="Initial delay before reconnecting to a broker, in milliseconds.",
)
RECONNECT_BACKOFF_MAX = Key(
    "reconnect.backoff.max.ms",
    LONG,
    default=1_000,
    importance=LOW,
    check=at_least(0),
    doc="Maximum delay before reconnecting to a broker, in milliseconds.",
)
CONNECTION_SETUP_TIMEOUT = Key(
    "socket.connection.setup.timeout.ms",
    LONG,
    default=10_000,
    importance=LOW,
    check=at_least(0),
    doc="Initial timeout for setting up a connection, in milliseconds.",
)
CONNECTION_SETUP_TIMEOUT_MAX = Key(
    "socket.connection.setup.timeout.max.ms",
    LONG,
    default=30_000,
    importance=LOW,
    check=at_least(0),
    doc="Maximum timeout for setting up a connection, after many failures, in milliseconds.",
)
RETRY_BACKOFF = Key(
    "retry.backoff.ms",
    LONG,
    default=100,
    importance=LOW,
    check=at_least(0),
    doc="Initial delay before a failed request is retried, in milliseconds.",
)
RETRY_BACKOFF_MAX = Key(
    "retry.backoff.max.ms",
    LONG,
    default=1_000,
    importance=LOW,
    check=at_least(0),
    doc="Maximum delay before a failed request is retried, in milliseconds.",
)
REQUEST_TIMEOUT = Key(
    "request.timeout.ms",
    INT,
    default=40_000,
    check=at_least(0),
    doc="How long a broker may take to answer, in milliseconds.",
)
CONNECTIONS_MAX_IDLE = Key(
    "connections.max.idle.ms",
    LONG,
    default=540_000,
    doc="After how long an unused connection is closed, in milliseconds.",
)
SECURITY_PROTOCOL = Key(
    "security.protocol",
    STRING,
    default="PLAINTEXT",
    check=one_of("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", ignore_case=True),
    doc="How the worker's own clients connect to brokers. Clients of tasks use the 'producer.', "
    "'consumer.' and 'admin.' settings.",
)

SASL: Final = (
    Key("sasl.mechanism", STRING, "GSSAPI", doc="SASL mechanism of the worker's own clients."),
    Key("sasl.jaas.config", PASSWORD, None, doc="Login module and credentials, in JAAS form."),
    Key("sasl.kerberos.service.name", STRING, None, doc="Kerberos principal of the brokers."),
    Key("sasl.client.callback.handler.class", CLASS, None, doc="Ignored."),
    Key("sasl.login.callback.handler.class", CLASS, None, doc="Ignored."),
    Key("sasl.login.class", CLASS, None, doc="Ignored."),
    Key(
        "sasl.oauthbearer.token.endpoint.url",
        STRING,
        None,
        doc="URL from which OAuth tokens are fetched.",
    ),
    Key(
        "sasl.oauthbearer.client.credentials.client.id",
        STRING,
        None,
        doc="Id of the OAuth client.",
    ),
    Key(
        "sasl.oauthbearer.client.credentials.client.secret",
        PASSWORD,
        None,
        doc="Secret of the OAuth client.",
    ),
    Key("sasl.oauthbearer.scope", STRING, None, doc="Scope to request from the OAuth server."),
    Key(
        "sasl.oauthbearer.assertion.private.key.passphrase",
        PASSWORD,
        None,
        doc="Passphrase of the key that signs OAuth assertions.",
    ),
)
"""The client SASL settings that are used here; others are passed on unread."""

WORKER_SYNC_TIMEOUT = Key(
    "worker.sync.timeout.ms",
    INT,
    default=3_000,
    doc="How long a worker may take to read the config topic to its end before it leaves the group"
    " for a while, in milliseconds.",
)
WORKER_UNSYNC_BACKOFF = Key(
    "worker.unsync.backoff.ms",
    INT,
    default=300_000,
    doc="How long a worker that could not catch up stays out of the group, in milliseconds.",
)
OFFSET_STORAGE_TOPIC = Key(
    "offset.storage.topic",
    STRING,
    importance=HIGH,
    doc="Topic for the offsets of source connectors; the same on every worker of a cluster."
    " Created compacted if it does not exist.",
)
OFFSET_STORAGE_PARTITIONS = Key(
    "offset.storage.partitions",
    INT,
    default=25,
    importance=LOW,
    check=broker_default_or_positive_partitions(),
    doc="Number of partitions of the offsets topic if the worker creates it; -1: the broker's "
    "default.",
)
OFFSET_STORAGE_REPLICATION = Key(
    "offset.storage.replication.factor",
    SHORT,
    default=3,
    importance=LOW,
    check=broker_default_or_positive_replication(),
    doc="Replication factor of the offsets topic if the worker creates it; -1: the broker's "
    "default.",
)
CONFIG_STORAGE_TOPIC = Key(
    "config.storage.topic",
    STRING,
    importance=HIGH,
    doc="Topic for connector and task configurations; the same on every worker of a cluster."
    " It has one partition, and is created compacted if it does not exist.",
)
CONFIG_STORAGE_REPLICATION = Key(
    "config.storage.replication.factor",
    SHORT,
    default=3,
    importance=LOW,
    check=broker_default_or_positive_replication(),
    doc="Replication factor of the config topic if the worker creates it; -1: the broker's "
    "default.",
)
STATUS_STORAGE_TOPIC = Key(
    "status.storage.topic",
    STRING,
    importance=HIGH,
    doc="Topic for the states of connectors and tasks; the same on every worker of a"
    " cluster. Created compacted if it does not exist.",
)
STATUS_STORAGE_PARTITIONS = Key(
    "status.storage.partitions",
    INT,
    default=5,
    importance=LOW,
    check=broker_default_or_positive_partitions(),
    doc="Number of partitions of the status topic if the worker creates it; -1: the broker's "
    "default.",
)
STATUS_STORAGE_REPLICATION = Key(
    "status.storage.replication.factor",
    SHORT,
    default=3,
    importance=LOW,
    check=broker_default_or_positive_replication(),
    doc="Replication factor of the status topic if the worker creates it; -1: the broker's "
    "default.",
)
CONNECT_PROTOCOL = Key(
    "connect.protocol",
    STRING,
    default="sessioned",
    importance=LOW,
    check=checking(f"[{', '.join(CONNECT_PROTOCOLS)}]", bad_connect_protocol),
    doc="How work is rebalanced: 'eager' stops everything at every rebalance, 'compatible' and"
    " 'sessioned' move only what must move, and 'sessioned' signs requests between workers.",
)
SCHEDULED_REBALANCE_MAX_DELAY = Key(
    "scheduled.rebalance.max.delay.ms",
    INT,
    default=300_000,
    importance=LOW,
    check=between(0, MAX_INT),
    doc="How long the connectors and tasks of a worker that left stay unassigned, in case it "
    "rejoins, in milliseconds.",
)
INTER_WORKER_KEY_TTL = Key(
    "inter.worker.key.ttl.ms",
    INT,
    default=3_600_000,
    importance=LOW,
    check=between(0, MAX_INT),
    doc="After how long the key that signs requests between workers is replaced, in milliseconds;"
    " 0 keeps it.",
)
INTER_WORKER_KEY_GENERATION_ALGORITHM = Key(
    "inter.worker.key.generation.algorithm",
    STRING,
    default="HmacSHA256",
    importance=LOW,
    check=checking("a MAC algorithm", unsupported_mac),
    doc="Algorithm for the keys that sign requests between workers; the same on all workers.",
)
INTER_WORKER_KEY_SIZE = Key(
    "inter.worker.key.size",
    INT,
    default=None,
    importance=LOW,
    doc="Size of the key that signs requests between workers, in bits; unset: the algorithm's "
    "default.",
)
INTER_WORKER_SIGNATURE_ALGORITHM = Key(
    "inter.worker.signature.algorithm",
    STRING,
    default="HmacSHA256",
    importance=LOW,
    check=checking("a MAC algorithm", unsupported_mac),
    doc="Algorithm that signs requests between workers; must be one of"
    " inter.worker.verification.algorithms.",
)
INTER_WORKER_VERIFICATION_ALGORITHMS = Key(
    "inter.worker.verification.algorithms",
    LIST,
    default=("HmacSHA256",),
    importance=LOW,
    check=checking("one or more MAC algorithms", bad_verification_algorithms),
    doc="Algorithms that are accepted for signatures of other workers.",
)
METADATA_RECOVERY_STRATEGY = Key(
    "metadata.recovery.strategy",
    STRING,
    default="rebootstrap",
    importance=LOW,
    check=one_of("REBOOTSTRAP", "NONE", ignore_case=True),
    doc="What a client does when no known broker answers: start over from bootstrap.servers, or "
    "keep retrying.",
)
METADATA_RECOVERY_TRIGGER = Key(
    "metadata.recovery.rebootstrap.trigger.ms",
    LONG,
    default=300_000,
    importance=LOW,
    check=at_least(0),
    doc="After how long without metadata a client starts over, in milliseconds.",
)
OFFSET_STORAGE_FILE = Key(
    "offset.storage.file.filename",
    STRING,
    importance=HIGH,
    doc="File for the offsets of source connectors.",
)

COMMON: Final = ConfigDef(
    BOOTSTRAP_SERVERS,
    CLIENT_DNS_LOOKUP,
    KEY_CONVERTER,
    KEY_CONVERTER_VERSION,
    VALUE_CONVERTER,
    VALUE_CONVERTER_VERSION,
    TASK_SHUTDOWN_TIMEOUT,
    OFFSET_FLUSH_INTERVAL,
    OFFSET_FLUSH_TIMEOUT,
    PLUGIN_PATH,
    PLUGIN_DISCOVERY,
    METRICS_SAMPLE_WINDOW,
    METRICS_NUM_SAMPLES,
    METRICS_RECORDING_LEVEL,
    METRIC_REPORTERS,
    HEADER_CONVERTER,
    HEADER_CONVERTER_VERSION,
    CONFIG_PROVIDERS,
    OVERRIDE_POLICY,
    OVERRIDE_ALLOWLIST,
    TOPIC_CREATION_ENABLE,
    *SSL,
    TOPIC_TRACKING_ENABLE,
    TOPIC_TRACKING_ALLOW_RESET,
)
"""Settings of every worker."""

REST: Final = ConfigDef(
    LISTENERS,
    REST_ADVERTISED_HOST,
    REST_ADVERTISED_PORT,
    REST_ADVERTISED_LISTENER,
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_ALLOW_METHODS,
    RESPONSE_HEADERS,
    SSL_CLIENT_AUTH,
    REST_EXTENSION_CLASSES,
    ADMIN_LISTENERS,
)
"""Settings of every worker's REST server."""

DISTRIBUTED: Final = ConfigDef(
    *COMMON.keys,
    *REST.keys,
    GROUP_ID,
    SESSION_TIMEOUT,
    REBALANCE_TIMEOUT,
    HEARTBEAT_INTERVAL,
    EXACTLY_ONCE_SOURCE_SUPPORT,
    METADATA_MAX_AGE,
    CLIENT_ID,
    SEND_BUFFER,
    RECEIVE_BUFFER,
    RECONNECT_BACKOFF,
    RECONNECT_BACKOFF_MAX,
    CONNECTION_SETUP_TIMEOUT,
    CONNECTION_SETUP_TIMEOUT_MAX,
    RETRY_BACKOFF,
    RETRY_BACKOFF_MAX,
    REQUEST_TIMEOUT,
    CONNECTIONS_MAX_IDLE,
    SECURITY_PROTOCOL,
    *SASL,
    WORKER_SYNC_TIMEOUT,
    WORKER_UNSYNC_BACKOFF,
    OFFSET_STORAGE_TOPIC,
    OFFSET_STORAGE_PARTITIONS,
    OFFSET_STORAGE_REPLICATION,
    CONFIG_STORAGE_TOPIC,
    CONFIG_STORAGE_REPLICATION,
    STATUS_STORAGE_TOPIC,
    STATUS_STORAGE_PARTITIONS,
    STATUS_STORAGE_REPLICATION,
    CONNECT_PROTOCOL,
    SCHEDULED_REBALANCE_MAX_DELAY,
    INTER_WORKER_KEY_TTL,
    INTER_WORKER_KEY_GENERATION_ALGORITHM,
    INTER_WORKER_KEY_SIZE,
    INTER_WORKER_SIGNATURE_ALGORITHM,
    INTER_WORKER_VERIFICATION_ALGORITHMS,
    METADATA_RECOVERY_STRATEGY,
    METADATA_RECOVERY_TRIGGER,
    *RESTART.keys,
    *TRACE.keys,
    rules=(
        signature_is_accepted(
            INTER_WORKER_SIGNATURE_ALGORITHM, INTER_WORKER_VERIFICATION_ALGORITHMS
        ),
        key_size_fits(INTER_WORKER_KEY_GENERATION_ALGORITHM, INTER_WORKER_KEY_SIZE),
    ),
)
"""Settings of a worker that is part of a cluster."""

STANDALONE: Final = ConfigDef(*COMMON.keys, *REST.keys, OFFSET_STORAGE_FILE)
"""Settings of a standalone worker."""
