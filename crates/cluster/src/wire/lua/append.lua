-- Puts changes behind those that are there: of each subject the last one is kept. What has ended goes, some at a time.
-- KEYS[1] the number of each subject's last change; KEYS[2] the changes; KEYS[3] when they end; KEYS[4] calls
-- ARGV[1] the tag of this call; ARGV[2] what ends before it goes; ARGV[3] most subjects; ARGV[4] calls that are remembered;
-- then for each change its subject, its kind, when it ends, and its text.
-- Answers how many were put there, and for how many there was no room.
local numbers, changes, ends, calls = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for _, subject in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', ARGV[2], 'LIMIT', 0, 200)) do
  redis.call('ZREM', numbers, subject)
  redis.call('ZREM', ends, subject)
  redis.call('HDEL', changes, subject)
end
local size, put, full = redis.call('HLEN', changes), 0, 0
for at = 5, #ARGV, 4 do
  local subject, kind, last, text = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local there = redis.call('HGET', changes, subject)
  local known, known_last = '', '0'
  if there then known, known_last = string.match(there, '^(%a)(%d+) ') end
  -- A ban is made longer, and never shorter but by a lift; what was lifted stays so. A value is set anew each time.
  local is_said = kind ~= 's' and known == kind and tonumber(known_last) >= tonumber(last)
  if not there and size >= tonumber(ARGV[3]) then
    full = full + 1
  elseif not is_said then
    if not there then size = size + 1 end
    local number = string.format('%.0f', redis.call('HINCRBY', calls, 'n', 1))
    redis.call('HSET', changes, subject, kind .. last .. ' ' .. text)
    redis.call('ZADD', numbers, number, subject)
    redis.call('ZADD', ends, last, subject)
    put = put + 1
  end
end
if put > 0 then
  local call = redis.call('HINCRBY', calls, 'c', 1)
  redis.call('HSET', calls, string.format('%.0f', call % tonumber(ARGV[4])), ARGV[1])
end
return { put, full }
