-- One message: KEYS are its keys; ARGV[1] is the number of the ten-minute bucket of its time, the rest the counters
-- that go up by one, key by key. A key is a hash: field bucket * 6 + counter of a ten-minute bucket or of a day,
-- which no two share, as days have small numbers. Answers 18 sums for each key.
local bucket = tonumber(ARGV[1])
local day = math.floor(bucket / 144)
local out, n = {}, 0
for i, key in ipairs(KEYS) do
  local counter = tonumber(ARGV[i + 1])
  local field = bucket * 6 + counter
  for at = n + 1, n + 18 do out[at] = 0 end
  local all, fresh = redis.call('HGETALL', key), true
  for at = 1, #all, 2 do
    local slot, amount = tonumber(all[at]), tonumber(all[at + 1])
    if slot == field then fresh = false end
    local own, column = math.floor(slot / 6), n + 1 + slot % 6
    if slot >= 4194304 then
      if own >= bucket - 6 then out[column] = out[column] + amount end
      if own >= bucket - 144 then out[column + 6] = out[column + 6] + amount end
      own = math.floor(own / 144)
    end
    if own >= day - 14 then out[column + 12] = out[column + 12] + amount end
  end
  n = n + 18
  redis.call('HINCRBY', key, field, 1)
  -- With a new bucket, old ones are folded into their days.
  if fresh then
    for at = 1, #all, 2 do
      local slot = tonumber(all[at])
      local own = math.floor(slot / 6)
      if slot >= 4194304 and own < bucket - 144 then
        redis.call('HINCRBY', key, math.floor(own / 144) * 6 + slot % 6, all[at + 1])
        redis.call('HDEL', key, all[at])
      elseif slot < 4194304 and own < day - 14 then
        redis.call('HDEL', key, all[at])
      end
    end
  end
end
return out
