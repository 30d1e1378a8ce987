-- Gives names their numbers, unless others have had numbers since the registry was read.
-- KEYS[1] the registry; ARGV[1] lines: how many names it had, then a field and its value for each new one.
local lines = string.gmatch(ARGV[1], '[^\n]+')
if redis.call('HLEN', KEYS[1]) ~= tonumber(lines()) then return 0 end
for field in lines do
  redis.call('HSET', KEYS[1], field, lines())
end
return 1
