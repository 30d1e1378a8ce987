-- Puts training examples of one sender behind those of a model's stream, but for those that are there.
-- KEYS[1] the stream, KEYS[2] the senders; ARGV: the sender, the length of the stream as it knows it, most training examples and bytes of a
-- stream, most senders, then the number and the bytes of each training example, of which the first 16 are its identity.
local stream, senders, sender = KEYS[1], KEYS[2], ARGV[1]
local state = redis.call('HMGET', stream, 'head', 'base', 'bytes')
local head, base, bytes = tonumber(state[1] or '0'), tonumber(state[2] or '0'), tonumber(state[3] or '0')
local known = redis.call('HGET', senders, sender)
local last = known and tonumber(string.match(known, '^%d+')) or 0
if head < tonumber(ARGV[2]) then return { last, 0, 1 } end
local full, added = 0, 0
for at = 6, #ARGV, 2 do
  local number, example = tonumber(ARGV[at]), ARGV[at + 1]
  if number > last then
    if head - base >= tonumber(ARGV[3]) or bytes + #example > tonumber(ARGV[4]) then
      full = 1
      break
    end
    head, bytes, last, added = head + 1, bytes + #example, number, added + 1
    redis.call('HSET', stream, string.format('%.0f', head), example)
  end
end
if added > 0 then
  redis.call('HSET', stream, 'head', string.format('%.0f', head), 'bytes', string.format('%.0f', bytes))
  -- Senders are processes: of those that came long ago nothing is under way any more.
  if not known and redis.call('HLEN', senders) >= tonumber(ARGV[5]) then
    local oldest, at = nil, math.huge
    local all = redis.call('HGETALL', senders)
    for field = 1, #all, 2 do
      local came = tonumber(string.match(all[field + 1], '%d+$')) or 0
      if came < at then oldest, at = all[field], came end
    end
    redis.call('HDEL', senders, oldest)
  end
  redis.call('HSET', senders, sender, string.format('%.0f %.0f', last, head))
end
return { last, full, 0 }
