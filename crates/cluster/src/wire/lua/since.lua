-- The changes behind a number, in their order, if no call that was heard of is forgotten.
-- KEYS as append.lua has them; ARGV[1] the number; ARGV[2] the call that was heard of last, 0 for none; ARGV[3] its tag; ARGV[4] most
-- changes; ARGV[5] calls that are remembered.
-- Answers 0 if the call is forgotten; else 1, 1 if there are more, the number of the last of these, the last call and its tag, then
-- each subject and its change.
local numbers, changes, calls = KEYS[1], KEYS[2], KEYS[4]
local function tag(call)
  return redis.call('HGET', calls, string.format('%.0f', tonumber(call) % tonumber(ARGV[5]))) or ''
end
if ARGV[2] ~= '0' and tag(ARGV[2]) ~= ARGV[3] then return { 0 } end
local last, call = redis.call('HGET', calls, 'n') or '0', redis.call('HGET', calls, 'c') or '0'
local answer = { 1, 0, last, call, tag(call) }
if last ~= ARGV[1] then
  local found = redis.call('ZRANGEBYSCORE', numbers, '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[4]))
  for at = 1, #found, 2 do
    answer[#answer + 1] = found[at]
    answer[#answer + 1] = redis.call('HGET', changes, found[at]) or ''
  end
  if #found >= 2 * tonumber(ARGV[4]) then answer[2], answer[3] = 1, found[#found] end
end
return answer
