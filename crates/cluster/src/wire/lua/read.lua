-- The node's number, and all fields of each cell.
local found = { redis.call('GET', KEYS[1]) or '0' }
for at = 2, #KEYS do found[at] = redis.pcall('HGETALL', KEYS[at]) end
return found
