"""The Flatbuffers tables of the format as frozen values: Message, its headers, Footer, Schema."""
