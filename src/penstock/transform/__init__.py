"""Built-in transforms and predicates: functions over batches, no Spark, no Kafka."""

from penstock.transform.cast import CastKey, CastValue
from penstock.transform.extract_field import ExtractFieldKey, ExtractFieldValue
from penstock.transform.filter import Filter
from penstock.transform.flatten import FlattenKey, FlattenValue
from penstock.transform.headers import DropHeaders, HeaderFromKey, HeaderFromValue, InsertHeader
from penstock.transform.hoist_field import HoistFieldKey, HoistFieldValue
from penstock.transform.insert_field import InsertFieldKey, InsertFieldValue
from penstock.transform.mask_field import MaskFieldKey, MaskFieldValue
from penstock.transform.predicates import HasHeaderKey, RecordIsTombstone, TopicNameMatches
from penstock.transform.replace_field import ReplaceFieldKey, ReplaceFieldValue
from penstock.transform.routers import RegexRouter, TimestampRouter
from penstock.transform.schema_metadata import SetSchemaMetadataKey, SetSchemaMetadataValue
from penstock.transform.timestamp_converter import TimestampConverterKey, TimestampConverterValue
from penstock.transform.value_to_key import ValueToKey

BUILT_IN = (
    *(CastKey, CastValue, DropHeaders, ExtractFieldKey, ExtractFieldValue, Filter),
    *(FlattenKey, FlattenValue, HeaderFromKey, HeaderFromValue, HoistFieldKey, HoistFieldValue),
    *(InsertFieldKey, InsertFieldValue, InsertHeader, MaskFieldKey, MaskFieldValue),
    *(RegexRouter, ReplaceFieldKey, ReplaceFieldValue),
    *(SetSchemaMetadataKey, SetSchemaMetadataValue),
    *(TimestampConverterKey, TimestampConverterValue, TimestampRouter, ValueToKey),
    *(HasHeaderKey, RecordIsTombstone, TopicNameMatches),
)
"""The classes of all of them."""
