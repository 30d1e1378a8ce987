
-- A batch: the keys are the node's number, who wrote last, and cells.
-- { number, number before it, horizon, ttl of the number, forms, writes }; a write is { form, key, ... }.
-- Answers what was done, the number that is there, how many cells are none, and who wrote before.
local batch = cmsgpack.unpack(ARGV[1])
local number, previous = batch[1], batch[2]
local has = tonumber(call('GET', KEYS[1])) or 0
if has >= number then
  -- A write, so that who waits for replicas waits for what was made before, too.
  call('PEXPIRE', KEYS[1], batch[4])
  return { 1, has, 0, '' }
end
-- Neither before nor after it: what an ended process of the node sent may have arrived meanwhile.
if has ~= previous then return { 2, has, 0, '' } end
horizon = batch[3]
-- First of all: it is refused, and nothing is changed, where there is no memory.
call('SET', KEYS[1], text(number), 'PX', batch[4])
local before = call('GET', KEYS[2])
-- The node is what the name of its number ends with.
call('SET', KEYS[2], string.sub(KEYS[1], -16) .. text(number))

local function make(write)
  local form, key = batch[5][write[1]], KEYS[write[2]]
  local kind = form[1]
  if kind == 1 then
    -- A value has the place of its pair among the keys there; times are texts.
    if type(write[3]) == 'number' then
      unique(key, form, KEYS[write[3]], write[4])
    else
      windows(key, form, write[3], write[4], write, 5)
    end
  elseif kind == 2 then
    totals(key, form, write[3])
  elseif kind == 3 then
    wrapping_sums(key, form, write[3], write[4])
  elseif kind == 4 then
    bucket(key, write[3], write[4], write[5], write[6], write[7])
  elseif kind == 6 then
    register(key, form, write[3], write[4])
  else
    ranks_of(key, form, write[3], write[4], write[5])
  end
end

-- A cell that is none must not stop the others.
local broken = 0
for at = 1, #batch[6] do
  if not pcall(make, batch[6][at]) then broken = broken + 1 end
end
return { 0, number, broken, before or '' }
