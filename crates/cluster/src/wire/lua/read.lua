-- The node's number, who wrote last, and all fields of each cell.
local found = { redis.call('GET', KEYS[1]) or '0', redis.call('GET', KEYS[2]) or '' }
for at = 3, #KEYS do found[at] = redis.pcall('HGETALL', KEYS[at]) end
return found
