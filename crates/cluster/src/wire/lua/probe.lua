-- Each command that scripts call, on a key that is not there before or after: those that this user may not run, with
-- commas between.
local key, refused = KEYS[1], {}
local calls = {
  { 'SET', key, '1', 'PX', 1000 }, { 'GET', key }, { 'DEL', key },
  { 'BITFIELD', key, 'SET', 'u4', '#1', '1' }, { 'GETRANGE', key, 0, 1 }, { 'DEL', key },
  { 'HSET', key, 'a', '1' }, { 'HSETNX', key, 'a', '1' }, { 'HINCRBY', key, 'a', '1' }, { 'PEXPIRE', key, 1000 }, { 'PTTL', key },
  { 'HGET', key, 'a' }, { 'HMGET', key, 'a' }, { 'HGETALL', key }, { 'HKEYS', key }, { 'HLEN', key }, { 'HDEL', key, 'a' },
  { 'ZADD', key, 1, 'a' }, { 'ZRANGEBYSCORE', key, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1 }, { 'ZREM', key, 'a' },
}
for _, command in ipairs(calls) do
  local answer = redis.pcall(unpack(command))
  local why = type(answer) == 'table' and answer.err
  if why and (string.find(why, 'NOPERM', 1, true) or string.find(why, 'executing the script', 1, true)) then
    refused[#refused + 1] = command[1]
  end
end
return table.concat(refused, ', ')
