-- The node's number, who wrote last, and all fields of each cell.
local head = redis.call('MGET', KEYS[1], KEYS[2])
local found = { head[1] or '0', head[2] or '' }
for at = 3, #KEYS do found[at] = redis.pcall('HGETALL', KEYS[at]) end
return found
