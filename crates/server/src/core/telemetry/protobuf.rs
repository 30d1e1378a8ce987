//! Messages of protocol buffers, written as OTLP needs them: fields by number, nested messages, no schema.

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct ProtobufWriter {
    bytes: Vec<u8>,
}

/// The wire types.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;

impl ProtobufWriter {
    /// Returns the bytes of the message.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn key(&mut self, field: u32, wire: u64) {
        self.raw_varint(u64::from(field) << 3 | wire);
    }

    /// Writes a whole number.
    pub(super) fn varint(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.raw_varint(value);
    }

    /// Writes a number of eight bytes.
    pub(super) fn fixed(&mut self, field: u32, value: u64) {
        self.key(field, FIXED_64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes a floating-point number.
    pub(super) fn double(&mut self, field: u32, value: f64) {
        self.fixed(field, value.to_bits());
    }

    /// Writes bytes or a text.
    pub(super) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.key(field, LENGTH);
        self.raw_varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// Writes a list of numbers of eight bytes, packed.
    pub(super) fn packed(&mut self, field: u32, values: impl Iterator<Item = u64>) {
        let packed: Vec<u8> = values.flat_map(u64::to_le_bytes).collect();
        self.bytes(field, &packed);
    }

    /// Writes a message within this one.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut ProtobufWriter)) {
        let mut inner = ProtobufWriter::default();
        write(&mut inner);
        self.bytes(field, &inner.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_the_encoding_guide_has_them() {
        let write = |write: &dyn Fn(&mut ProtobufWriter)| {
            let mut writer = ProtobufWriter::default();
            write(&mut writer);
            writer.into_bytes()
        };
        assert_eq!(write(&|message| message.varint(1, 150)), [0x08, 0x96, 0x01]);
        assert_eq!(write(&|message| message.bytes(2, b"testing")), *b"\x12\x07testing");
        assert_eq!(
            write(&|message| message.message(3, |inner| inner.varint(1, 150))),
            [0x1a, 0x03, 0x08, 0x96, 0x01]
        );
        assert_eq!(write(&|message| message.double(16, 1.0))[..2], [0x81, 0x01]);
        assert_eq!(write(&|message| message.packed(6, [1, 2].into_iter()))[..2], [0x32, 16]);
    }
}
