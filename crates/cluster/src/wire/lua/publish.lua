-- Puts a snapshot of a model in the place of the last, cuts off training examples before it, and gives back the lease.
-- KEYS[1] the stream, KEYS[2] the lease, KEYS[3] pieces of snapshots; ARGV: the lease; the number and the identity of the last training example
-- in the snapshot; its description, which begins with that number; how many training examples stay before it, or -1 for a stream that begins
-- with it; for such a stream the head that is known; most training examples to cut off at once.
-- Answers 0 if the lease has ended or the stream is another one, 1 if it is done, 2 if there is more to cut off.
local stream, lease, pieces = KEYS[1], KEYS[2], KEYS[3]
if redis.call('GET', lease) ~= ARGV[1] then return 0 end
local number, kept = tonumber(ARGV[2]), tonumber(ARGV[5])
local state = redis.call('HMGET', stream, 'head', 'base', 'bytes', 'snapshot', 'origin')
local head, base, bytes = tonumber(state[1] or '0'), tonumber(state[2] or '0'), tonumber(state[3] or '0')
local more = false
if kept < 0 then
  if head ~= tonumber(ARGV[6]) then return 0 end
  redis.call('DEL', stream)
  redis.call('HSET', stream, 'head', ARGV[2], 'base', ARGV[2], 'bytes', '0', 'origin', ARGV[3], 'snapshot', ARGV[4])
else
  if number < base or number > head then return 0 end
  local there = state[5]
  if number > base then there = string.sub(redis.call('HGET', stream, ARGV[2]) or '', 1, 16) end
  if there ~= ARGV[3] then return 0 end
  if state[4] and state[4] ~= ARGV[4] and tonumber(string.match(state[4], '^%d+')) > number then return 0 end
  local to = math.min(number - kept, base + tonumber(ARGV[7]))
  more = number - kept > to
  local origin
  for cut = base + 1, to do
    local field = string.format('%.0f', cut)
    local example = redis.call('HGET', stream, field) or ''
    bytes, origin = bytes - #example, string.sub(example, 1, 16)
    redis.call('HDEL', stream, field)
  end
  redis.call('HSET', stream, 'snapshot', ARGV[4])
  redis.call('HDEL', stream, 'wanted')
  if origin then
    redis.call('HSET', stream, 'base', string.format('%.0f', to), 'origin', origin, 'bytes', string.format('%.0f', bytes))
  end
end
if more then return 2 end
for _, piece in ipairs(redis.call('HKEYS', pieces)) do
  if string.sub(piece, 1, #ARGV[1]) ~= ARGV[1] then redis.call('HDEL', pieces, piece) end
end
redis.call('DEL', lease)
return 1
