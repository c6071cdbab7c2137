-- Files for tests: written, spoilt, and removed again.
local core = require "optlua.core"

local files = {}

--- Writes bytes to a path.
function files.write(path, bytes)
  local file = assert(io.open(path, "wb"))
  assert(file:write(bytes))
  file:close()
end

--- The bytes of a file.
function files.read(path)
  local file = assert(io.open(path, "rb"))
  local bytes = file:read "a"
  file:close()
  return bytes
end

--- Calls fn with the name of a new folder, which is removed afterwards.
function files.with_folder(fn)
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir " .. folder))
  local ok, message = pcall(fn, folder)
  os.execute("rm -r " .. folder)
  if not ok then error(message, 0) end
end

--- A new file, in memory where the system lets us: thousands are written.
local function new_name()
  local path = os.tmpname()
  local fast = path:gsub("^/tmp/", "/dev/shm/")
  local file = fast ~= path and io.open(fast, "wb")
  if not file then return path end
  file:close()
  os.remove(path)
  return fast
end

--- Calls fn with the name of a file that holds these bytes, and removes it afterwards.
function files.with_bytes(bytes, fn)
  local path = new_name()
  files.write(path, bytes)
  local ok, message = pcall(fn, path)
  os.remove(path)
  if not ok then error(message, 0) end
end

--- Gzips bytes.
function files.gzip(bytes)
  local result
  files.with_bytes(bytes, function(path)
    assert(os.execute("gzip -c " .. path .. " >" .. path .. ".gz"))
    result = files.read(path .. ".gz")
    os.remove(path .. ".gz")
  end)
  return result
end

local random -- our own numbers, so that a failure can be repeated
local function generator(seed)
  return function(n)
    seed = (seed * 6364136223846793005 + 1442695040888963407)
    return (seed >> 33) % n + 1
  end
end

-- One way or another to spoil a file.
local function spoil(bytes)
  local choice, at = random(4), random(#bytes)
  if choice == 1 then return bytes:sub(1, at - 1) end
  if choice == 2 then return bytes:sub(1, at - 1) .. bytes:sub(at + random(8)) end
  local list = { bytes:sub(1, at - 1) }
  for _ = 1, choice == 3 and 1 or random(8) do list[#list + 1] = string.char(random(256) - 1) end
  return table.concat(list) .. bytes:sub(at + #list - 1)
end

--- Spoils bytes in many ways, writes each to a file and calls read(path): it may succeed, or raise a message,
--- and leaves no memory behind. Returns how many succeeded.
function files.fuzz(bytes, rounds, read)
  random = generator(rounds)
  collectgarbage()
  collectgarbage()
  local before, succeeded = core.hidden.memory().live_blocks, 0
  files.with_bytes(bytes, function(path)
    for _ = 1, rounds do
      local spoilt = spoil(bytes)
      if random(3) == 1 and #spoilt > 0 then spoilt = spoil(spoilt) end
      files.write(path, spoilt)
      local ok, message = pcall(read, path)
      if not ok and type(message) ~= "string" then error("no message: " .. tostring(message)) end
      succeeded = succeeded + (ok and 1 or 0)
    end
  end)
  collectgarbage()
  collectgarbage()
  local left = core.hidden.memory().live_blocks - before
  if left > 0 then error(("%d blocks are left behind"):format(left), 0) end
  return succeeded
end

--- Lets each allocation of fn() fail in turn, or if persistent each and all that follow, until it succeeds; returns
--- how many there were.
function files.fail_allocations(fn, persistent)
  collectgarbage()
  collectgarbage()
  local before, count = core.hidden.memory().live_blocks, 0
  assert(pcall(fn))
  repeat
    core.hidden.fail_allocations(count, persistent or false)
    local ok, message = pcall(fn)
    core.hidden.fail_allocations(-1)
    collectgarbage()
    collectgarbage()
    assert(core.hidden.memory().live_blocks <= before, "blocks are left behind")
    assert(ok or message:find "memory", message)
    count = count + 1
  until ok
  return count - 1
end

return files
