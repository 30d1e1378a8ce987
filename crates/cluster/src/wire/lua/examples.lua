-- The training examples of a model's stream behind a place.
-- KEYS[1] the stream; ARGV: the number of the place, the identity of the training example there, most training examples and bytes to answer.
-- Answers the head, the bytes, the snapshot, whether another one is wanted, whether the place is one of this stream,
-- then training examples.
local stream, at = KEYS[1], tonumber(ARGV[1])
local state = redis.call('HMGET', stream, 'head', 'base', 'bytes', 'snapshot', 'origin', 'wanted')
local head, base = tonumber(state[1] or '0'), tonumber(state[2] or '0')
local answer = { string.format('%.0f', head), state[3] or '0', state[4] or '', state[6] and 1 or 0, 0 }
local follows = at == 0
if at > 0 and at == base then follows = state[5] == ARGV[2] end
if at > base then
  local there = redis.call('HGET', stream, ARGV[1])
  follows = there and string.sub(there, 1, 16) == ARGV[2]
end
if at < base or at > head or not follows then return answer end
answer[5] = 1
local bytes, most = 0, math.min(head, at + tonumber(ARGV[3]))
for number = at + 1, most do
  local example = redis.call('HGET', stream, string.format('%.0f', number))
  if not example then break end
  bytes = bytes + #example
  if bytes > tonumber(ARGV[4]) and number > at + 1 then break end
  answer[#answer + 1] = example
end
return answer
