"""The format's Flatbuffers messages as frozen values: Message, RecordBatch, DictionaryBatch, Footer, Schema."""
