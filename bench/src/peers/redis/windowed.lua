-- One message: KEYS are its keys; ARGV[1] is the number of the ten-minute bucket of its time, the rest the fields that
-- go up by one, key by key. A key is a hash: field bucket * 6 + counter of a ten-minute bucket or of a day, which no
-- two share, as days have small numbers. Answers 18 sums for each key, as one array of MessagePack.
local call, number = redis.call, tonumber
local bucket = number(ARGV[1])
local day = math.floor(bucket / 144)
local hour, oldest, oldest_day = bucket - 6, bucket - 144, day - 14
local out, n = {}, 0
for i, key in ipairs(KEYS) do
  local field, fresh, aged = ARGV[i + 1], true, false
  for at = n + 1, n + 18 do out[at] = 0 end
  local all = call('HGETALL', key)
  for at = 1, #all, 2 do
    local text, amount = all[at], number(all[at + 1])
    if text == field then fresh = false end
    local slot = number(text)
    local counter = slot % 6
    local own, column = (slot - counter) / 6, n + 1 + counter
    if slot >= 4194304 then
      if own >= hour then out[column] = out[column] + amount end
      if own >= oldest then out[column + 6] = out[column + 6] + amount else aged = true end
      own = math.floor(own / 144)
    end
    if own >= oldest_day then out[column + 12] = out[column + 12] + amount else aged = true end
  end
  n = n + 18
  call('HINCRBY', key, field, '1')
  -- With a new bucket, old ones are folded into their days.
  if fresh and aged then
    for at = 1, #all, 2 do
      local slot = number(all[at])
      local own = math.floor(slot / 6)
      if slot >= 4194304 and own < oldest then
        call('HINCRBY', key, math.floor(own / 144) * 6 + slot % 6, all[at + 1])
        call('HDEL', key, all[at])
      elseif slot < 4194304 and own < oldest_day then
        call('HDEL', key, all[at])
      end
    end
  end
end
return cmsgpack.pack(out)
