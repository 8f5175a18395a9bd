"""The settings of a worker, a `Key` each (kafka-connect.md §2); `worker` reads them.

Names, types, defaults and checks are those of Kafka Connect 4.3.1.
"""

from __future__ import annotations

from typing import Final

from penstock.config.checks import (
    broker_default_or_positive_partitions,
    broker_default_or_positive_replication,
    checking,
    entries,
)
from penstock.config.declare import (
    choice,
    class_name,
    flag,
    ignored,
    listing,
    long,
    number,
    secret,
    short,
    text,
)
from penstock.config.define import (
    CLASS,
    HIGH,
    LOW,
    MEDIUM,
    REQUIRED,
    ConfigDef,
)
from penstock.config.java_host import HOST
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

# fmt: off
BOOTSTRAP_SERVERS = listing("bootstrap.servers", REQUIRED,
    "Kafka brokers (host:port) to connect to first. The only setting that the clients of all "
    "tasks inherit unchanged.", unique=True, check=entries(may_be_empty=False), importance=HIGH)
CLIENT_DNS_LOOKUP = choice(
    "client.dns.lookup", "use_all_dns_ips",
    ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "Whether clients try every address that a broker's name resolves to, or first replace the "
    "names in bootstrap.servers with canonical ones.")
KEY_CONVERTER = class_name("key.converter", REQUIRED,
    "Converter for record keys, used by every connector that does not name its own. Settings "
    "that start with 'key.converter.' are its configuration.", importance=HIGH)
KEY_CONVERTER_VERSION = text("key.converter.plugin.version", None,
    "Version, or range of versions, of the key converter; unset uses the newest.", importance=LOW)
VALUE_CONVERTER = class_name("value.converter", REQUIRED,
    "Converter for record values, used by every connector that does not name its own. Settings "
    "that start with 'value.converter.' are its configuration.", importance=HIGH)
VALUE_CONVERTER_VERSION = text("value.converter.plugin.version", None,
    "Version, or range of versions, of the value converter; unset uses the newest.", importance=LOW)
TASK_SHUTDOWN_TIMEOUT = long("task.shutdown.graceful.timeout.ms", 5_000,
    "How long tasks, all together, may take to stop, in milliseconds. Those that take longer are "
    "abandoned.", importance=LOW)
OFFSET_FLUSH_INTERVAL = long("offset.flush.interval.ms", 60_000,
    "Time between two commits of a task's offsets, in milliseconds.", importance=LOW)
OFFSET_FLUSH_TIMEOUT = long("offset.flush.timeout.ms", 5_000,
    "Timeout of an offset commit, in milliseconds; after it, the commit is aborted and retried "
    "at the next interval. Not used by exactly-once sources.", importance=LOW)
PLUGIN_PATH = listing("plugin.path", None,
    "Directories with plugins, in addition to those installed with the worker. Placeholders are "
    "not resolved in this setting.", unique=True, check=entries(may_be_empty=False), importance=LOW)
PLUGIN_DISCOVERY = choice(
    "plugin.discovery", "hybrid_warn", ("ONLY_SCAN", "SERVICE_LOAD", "HYBRID_WARN", "HYBRID_FAIL"),
    "How plugins are found: by scanning all classes, by what packages declare, or both, with a "
    "warning or a failure if a plugin is not declared.", ignore_case=True, importance=LOW)
METRICS_SAMPLE_WINDOW = long("metrics.sample.window.ms", 30_000,
    "Length of one sample of a metric, in milliseconds.", at_least=0, importance=LOW)
METRICS_NUM_SAMPLES = number("metrics.num.samples", 2,
    "Number of samples a metric is computed from.", at_least=1, importance=LOW)
METRICS_RECORDING_LEVEL = choice("metrics.recording.level", "INFO", ("INFO", "DEBUG"),
    "The most detailed level of metrics that are recorded.", importance=LOW)
METRIC_REPORTERS = listing("metric.reporters", ("org.apache.kafka.common.metrics.JmxReporter",),
    "Classes that report metrics. The default is accepted for compatibility.", unique=True,
    check=entries(), importance=LOW)
HEADER_CONVERTER = class_name(
    "header.converter", "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    "Converter for record headers, used by every connector that does not name its own. Settings "
    "that start with 'header.converter.' are its configuration.", importance=LOW)
HEADER_CONVERTER_VERSION = text("header.converter.plugin.version", None,
    "Version, or range of versions, of the header converter; unset uses the newest.",
    importance=LOW)
CONFIG_PROVIDERS = listing("config.providers", (),
    "Names of the providers that placeholders of the form ${provider:path:key} may use. Each is "
    "configured by 'config.providers.NAME.class' and 'config.providers.NAME.param.*'.", unique=True,
    check=entries(), importance=LOW)
OVERRIDE_POLICY = text("connector.client.config.override.policy", "All",
    "Which settings of its Kafka clients a connector may override with 'producer.override.', "
    "'consumer.override.' and 'admin.override.': All, None, Principal or Allowlist.")
OVERRIDE_ALLOWLIST = listing("connector.client.config.override.allowlist", (),
    "The client settings that a connector may override under the Allowlist policy.", unique=True)
TOPIC_CREATION_ENABLE = flag("topic.creation.enable", True,
    "Whether to create topics for source connectors with 'topic.creation.' settings.",
    importance=LOW)
TOPIC_TRACKING_ENABLE = flag("topic.tracking.enable", True,
    "Whether to track the topics that each connector uses.", importance=LOW)
TOPIC_TRACKING_ALLOW_RESET = flag("topic.tracking.allow.reset", True,
    "Whether users may reset the tracked topics of a connector.", importance=LOW)

SSL: Final = (
    text("ssl.protocol", "TLSv1.3", "TLS version to start negotiating with."),
    text("ssl.provider", None, "Security provider; unset: the platform's."),
    listing("ssl.cipher.suites", (),
        "Cipher suites that may be used; empty allows all that are available.", unique=True,
        check=entries(), importance=LOW),
    listing("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"),
        "TLS versions that may be used.", unique=True, check=entries()),
    text("ssl.keystore.type", "JKS", "Format of the key store: JKS, PKCS12 or PEM."),
    text("ssl.keystore.location", None, "File with the private key.", importance=HIGH),
    secret("ssl.keystore.password", None, "Password of the key store.", importance=HIGH),
    secret("ssl.key.password", None, "Password of the private key.", importance=HIGH),
    secret("ssl.keystore.key", None, "The private key, as PEM.", importance=HIGH),
    secret("ssl.keystore.certificate.chain", None,
        "The certificate chain, as PEM.", importance=HIGH),
    secret("ssl.truststore.certificates", None,
        "The trusted certificates, as PEM.", importance=HIGH),
    text("ssl.truststore.type", "JKS", "Format of the trust store."),
    text("ssl.truststore.location", None, "File with the trusted certificates.", importance=HIGH),
    secret("ssl.truststore.password", None, "Password of the trust store.", importance=HIGH),
    ignored("ssl.keymanager.algorithm", "SunX509"),
    ignored("ssl.trustmanager.algorithm", "PKIX"),
    text("ssl.endpoint.identification.algorithm", "https",
        "How a server's name is checked against its certificate; empty: not checked.",
        importance=LOW),
    ignored("ssl.secure.random.implementation", None),
    ignored("ssl.engine.factory.class", None, kind=CLASS),
)
"""The client TLS settings. The REST server reads them too, unless any setting starts with
`listeners.https.`, or for admin listeners `admin.listeners.https.` (kafka-connect.md §1.1)."""

LISTENERS = listing("listeners", ("http://:8083",),
    "Addresses the REST API listens on, over http or https. An empty host means all interfaces.",
    check=checking("URLs of the form protocol://host:port", bad_listeners), importance=LOW)
REST_ADVERTISED_HOST = text("rest.advertised.host.name", None,
    "Host name under which other workers reach this one; unset: that of the listener.",
    importance=LOW)
REST_ADVERTISED_PORT = number("rest.advertised.port", None,
    "Port under which other workers reach this one; unset: that of the listener.", importance=LOW)
REST_ADVERTISED_LISTENER = choice("rest.advertised.listener", None, ("http", "https"),
    "Protocol by which other workers reach this one, http or https; unset prefers http.",
    ignore_case=True, importance=LOW)
ACCESS_CONTROL_ALLOW_ORIGIN = text("access.control.allow.origin", "",
    "Origin from which pages may use the REST API, or '*'; empty refuses other origins.",
    importance=LOW)
ACCESS_CONTROL_ALLOW_METHODS = text("access.control.allow.methods", "",
    "Methods that pages of other origins may use; empty: GET, POST and HEAD.", importance=LOW)
RESPONSE_HEADERS = text("response.http.headers.config", "",
    "Headers to add to every REST response. A rule is an action (set, add, setDate or addDate), "
    "a space, and name:value; put a rule that contains a comma in double quotes.",
    check=checking("rules of the form 'action name:value', comma separated", bad_header_rules),
    importance=LOW)
SSL_CLIENT_AUTH = choice("ssl.client.auth", "none", ("required", "requested", "none"),
    "Whether https clients of the REST server need a certificate.", importance=LOW)
REST_EXTENSION_CLASSES = listing("rest.extension.classes", (),
    "Extensions of the REST API are Java classes, which penstock does not run: a worker that "
    "configures one does not start.", unique=True, check=checking("empty", missing_rest_extensions),
    importance=LOW)
ADMIN_LISTENERS = listing("admin.listeners", None,
    "Addresses the admin endpoints listen on; unset puts them on the main listeners, empty turns "
    "them off.", check=checking("URLs of the form protocol://host:port", bad_listener),
    importance=LOW)

CONFIG_STORAGE_PREFIX: Final = "config.storage."

OFFSET_STORAGE_PREFIX: Final = "offset.storage."

STATUS_STORAGE_PREFIX: Final = "status.storage."

GROUP_ID = text("group.id", REQUIRED,
    "Name of the Connect cluster: workers with the same value form a cluster. It is a Kafka "
    "group and must differ from every consumer group.", importance=HIGH)
SESSION_TIMEOUT = number("session.timeout.ms", 10_000,
    "A worker that sends no heartbeat for this long is removed from the group, in milliseconds. "
    "The broker limits the values that it accepts.", importance=HIGH)
REBALANCE_TIMEOUT = number("rebalance.timeout.ms", 60_000,
    "How long each worker may take to join a rebalance, in milliseconds.", importance=HIGH)
HEARTBEAT_INTERVAL = number("heartbeat.interval.ms", 3_000,
    "Time between heartbeats, in milliseconds; at most a third of session.timeout.ms.",
    importance=HIGH)
EXACTLY_ONCE_SOURCE_SUPPORT = choice(
    "exactly.once.source.support", "disabled", ("DISABLED", "ENABLED", "PREPARING"),
    "Whether source tasks write records and offsets in transactions. To turn it on in a running "
    "cluster, first set 'preparing' on every worker, then 'enabled'.", ignore_case=True,
    importance=HIGH)
METADATA_MAX_AGE = long("metadata.max.age.ms", 300_000,
    "After how long metadata is refreshed even if nothing changed, in milliseconds.", at_least=0,
    importance=LOW)
CLIENT_ID = text("client.id", "",
    "Part of the names of the worker's own clients in broker logs and metrics.", importance=LOW)
SEND_BUFFER = number("send.buffer.bytes", 131_072,
    "TCP send buffer, in bytes; -1: the system's default.", at_least=-1)
RECEIVE_BUFFER = number("receive.buffer.bytes", 32_768,
    "TCP receive buffer, in bytes; -1: the system's default.", at_least=-1)
RECONNECT_BACKOFF = long("reconnect.backoff.ms", 50,
    "Initial delay before reconnecting to a broker, in milliseconds.", at_least=0, importance=LOW)
RECONNECT_BACKOFF_MAX = long("reconnect.backoff.max.ms", 1_000,
    "Maximum delay before reconnecting to a broker, in milliseconds.", at_least=0, importance=LOW)
CONNECTION_SETUP_TIMEOUT = long("socket.connection.setup.timeout.ms", 10_000,
    "Initial timeout for setting up a connection, in milliseconds.", at_least=0, importance=LOW)
CONNECTION_SETUP_TIMEOUT_MAX = long("socket.connection.setup.timeout.max.ms", 30_000,
    "Maximum timeout for setting up a connection, after many failures, in milliseconds.",
    at_least=0, importance=LOW)
RETRY_BACKOFF = long("retry.backoff.ms", 100,
    "Initial delay before a failed request is retried, in milliseconds.", at_least=0,
    importance=LOW)
RETRY_BACKOFF_MAX = long("retry.backoff.max.ms", 1_000,
    "Maximum delay before a failed request is retried, in milliseconds.", at_least=0,
    importance=LOW)
REQUEST_TIMEOUT = number("request.timeout.ms", 40_000,
    "How long a broker may take to answer, in milliseconds.", at_least=0)
CONNECTIONS_MAX_IDLE = long("connections.max.idle.ms", 540_000,
    "After how long an unused connection is closed, in milliseconds.")
SECURITY_PROTOCOL = choice(
    "security.protocol", "PLAINTEXT", ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT"),
    "How the worker's own clients connect to brokers. Clients of tasks use the 'producer.', "
    "'consumer.' and 'admin.' settings.", ignore_case=True)

SASL: Final = (
    text("sasl.mechanism", "GSSAPI", "SASL mechanism of the worker's own clients."),
    secret("sasl.jaas.config", None, "Login module and credentials, in JAAS form."),
    text("sasl.kerberos.service.name", None, "Kerberos principal of the brokers."),
    ignored("sasl.client.callback.handler.class", None, kind=CLASS, importance=MEDIUM),
    ignored("sasl.login.callback.handler.class", None, kind=CLASS, importance=MEDIUM),
    ignored("sasl.login.class", None, kind=CLASS, importance=MEDIUM),
    text("sasl.oauthbearer.token.endpoint.url", None, "URL from which OAuth tokens are fetched."),
    text("sasl.oauthbearer.client.credentials.client.id", None, "Id of the OAuth client."),
    secret("sasl.oauthbearer.client.credentials.client.secret", None,
        "Secret of the OAuth client."),
    text("sasl.oauthbearer.scope", None, "Scope to request from the OAuth server."),
    secret("sasl.oauthbearer.assertion.private.key.passphrase", None,
        "Passphrase of the key that signs OAuth assertions."),
)
"""The client SASL settings that are used here; others are passed on unread."""

WORKER_SYNC_TIMEOUT = number("worker.sync.timeout.ms", 3_000,
    "How long a worker may take to read the config topic to its end before it leaves the group "
    "for a while, in milliseconds.")
WORKER_UNSYNC_BACKOFF = number("worker.unsync.backoff.ms", 300_000,
    "How long a worker that could not catch up stays out of the group, in milliseconds.")
OFFSET_STORAGE_TOPIC = text("offset.storage.topic", REQUIRED,
    "Topic for the offsets of source connectors; the same on every worker of a cluster. Created "
    "compacted if it does not exist.", importance=HIGH)
OFFSET_STORAGE_PARTITIONS = number("offset.storage.partitions", 25,
    "Number of partitions of the offsets topic if the worker creates it; -1: the broker's "
    "default.", check=broker_default_or_positive_partitions(), importance=LOW)
OFFSET_STORAGE_REPLICATION = short("offset.storage.replication.factor", 3,
    "Replication factor of the offsets topic if the worker creates it; -1: the broker's default.",
    check=broker_default_or_positive_replication(), importance=LOW)
CONFIG_STORAGE_TOPIC = text("config.storage.topic", REQUIRED,
    "Topic for connector and task configurations; the same on every worker of a cluster. It has "
    "one partition, and is created compacted if it does not exist.", importance=HIGH)
CONFIG_STORAGE_REPLICATION = short("config.storage.replication.factor", 3,
    "Replication factor of the config topic if the worker creates it; -1: the broker's default.",
    check=broker_default_or_positive_replication(), importance=LOW)
STATUS_STORAGE_TOPIC = text("status.storage.topic", REQUIRED,
    "Topic for the states of connectors and tasks; the same on every worker of a cluster. "
    "Created compacted if it does not exist.", importance=HIGH)
STATUS_STORAGE_PARTITIONS = number("status.storage.partitions", 5,
    "Number of partitions of the status topic if the worker creates it; -1: the broker's default.",
    check=broker_default_or_positive_partitions(), importance=LOW)
STATUS_STORAGE_REPLICATION = short("status.storage.replication.factor", 3,
    "Replication factor of the status topic if the worker creates it; -1: the broker's default.",
    check=broker_default_or_positive_replication(), importance=LOW)
CONNECT_PROTOCOL = text("connect.protocol", "sessioned",
    "How work is rebalanced: 'eager' stops everything at every rebalance, 'compatible' and "
    "'sessioned' move only what must move, and 'sessioned' signs requests between workers.",
    check=checking(f"[{', '.join(CONNECT_PROTOCOLS)}]", bad_connect_protocol), importance=LOW)
SCHEDULED_REBALANCE_MAX_DELAY = number("scheduled.rebalance.max.delay.ms", 300_000,
    "How long the connectors and tasks of a worker that left stay unassigned, in case it "
    "rejoins, in milliseconds.", at_least=0, at_most=MAX_INT, importance=LOW)
INTER_WORKER_KEY_TTL = number("inter.worker.key.ttl.ms", 3_600_000,
    "After how long the key that signs requests between workers is replaced, in milliseconds; 0 "
    "keeps it.", at_least=0, at_most=MAX_INT, importance=LOW)
INTER_WORKER_KEY_GENERATION_ALGORITHM = text("inter.worker.key.generation.algorithm", "HmacSHA256",
    "Algorithm for the keys that sign requests between workers; the same on all workers.",
    check=checking("a MAC algorithm", unsupported_mac), importance=LOW)
INTER_WORKER_KEY_SIZE = number("inter.worker.key.size", None,
    "Size of the key that signs requests between workers, in bits; unset: the algorithm's "
    "default.", importance=LOW)
INTER_WORKER_SIGNATURE_ALGORITHM = text("inter.worker.signature.algorithm", "HmacSHA256",
    "Algorithm that signs requests between workers; must be one of "
    "inter.worker.verification.algorithms.", check=checking("a MAC algorithm", unsupported_mac),
    importance=LOW)
INTER_WORKER_VERIFICATION_ALGORITHMS = listing(
    "inter.worker.verification.algorithms", ("HmacSHA256",),
    "Algorithms that are accepted for signatures of other workers.",
    check=checking("one or more MAC algorithms", bad_verification_algorithms), importance=LOW)
METADATA_RECOVERY_STRATEGY = choice(
    "metadata.recovery.strategy", "rebootstrap", ("REBOOTSTRAP", "NONE"),
    "What a client does when no known broker answers: start over from bootstrap.servers, or keep "
    "retrying.", ignore_case=True, importance=LOW)
METADATA_RECOVERY_TRIGGER = long("metadata.recovery.rebootstrap.trigger.ms", 300_000,
    "After how long without metadata a client starts over, in milliseconds.", at_least=0,
    importance=LOW)
METADATA_CLUSTER_CHECK = ignored("metadata.cluster.check.enable", True,
    "the worker's clients do not send the cluster that they expect to brokers")
BOOTSTRAP_RESOLVE_TIMEOUT = long("bootstrap.resolve.timeout.ms", 0,
    "Ignored, as in Kafka Connect: names of brokers are resolved when a client is created.",
    at_least=0, importance=LOW)
INTERNAL_TOPICS_CREATION = flag("internal.topics.automatic.creation.enable", True,
    "Whether the worker creates internal topics that do not exist: the offset, config and status "
    "topics, and 'offsets.storage.topic' of connectors. If not, a missing topic is an error.")
OFFSET_STORAGE_FILE = text("offset.storage.file.filename", REQUIRED,
    "File for the offsets of source connectors.", importance=HIGH)
# fmt: on

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
    METADATA_CLUSTER_CHECK,
    BOOTSTRAP_RESOLVE_TIMEOUT,
    INTERNAL_TOPICS_CREATION,
    *RESTART.keys,
    *TRACE.keys,
    *HOST.keys,
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
