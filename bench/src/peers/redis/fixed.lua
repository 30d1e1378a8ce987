-- One message: KEYS are its keys, ARGV[1] its time as 8 bytes. A value is {first, last, count}, 8 bytes each.
-- One MGET and one MSET for the whole message; answers the old values.
local old = redis.call('MGET', unpack(KEYS))
local time, new, pairs_ = ARGV[1], {}, {}
for i, key in ipairs(KEYS) do
  -- A key that the message has twice was changed by it.
  local value = new[key] or old[i]
  old[i] = value
  if value then
    local count = struct.unpack('<I8', value, 17)
    local last = value:sub(9, 16)
    -- Times are big-endian, so that they compare as text.
    if time > last then last = time end
    value = value:sub(1, 8) .. last .. struct.pack('<I8', count + 1)
  else
    value = time .. time .. struct.pack('<I8', 1)
  end
  new[key] = value
end
local n = 0
for key, value in pairs(new) do
  pairs_[n + 1], pairs_[n + 2] = key, value
  n = n + 2
end
redis.call('MSET', unpack(pairs_))
return old
