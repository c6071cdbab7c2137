--- peer: the same work in PyTorch, in a process that takes requests line by line. There is none unless
-- PEER_PYTHON names a Python that has torch.
local peer = {}

local requests, answers -- files; false: there is none

local function start(module)
  local python = os.getenv "PEER_PYTHON"
  if not python or python == "" then return false end
  local folder = debug.getinfo(1, "S").source:match "^@(.*)[/\\]"
  local pipe = os.tmpname()
  os.remove(pipe)
  assert(os.execute(("mkfifo '%s'"):format(pipe)))
  answers = assert(io.popen(("'%s' '%s/peer.py' %s <'%s'"):format(python, folder, module, pipe)))
  requests = assert(io.open(pipe, "w"))
  requests:setvbuf "line"
  os.remove(pipe)
  print(assert(answers:read()))
  return requests
end

local function ask(...)
  requests:write(table.concat({ ... }, "\t"), "\n")
  local answer = answers:read()
  return answer or error "the peer has died"
end

--- A contender for timing: the work of that name there; nil where there is no peer, or it knows no such work.
---@param module "peer_layers"|"peer_optim" one for a process
---@param name string
---@param phase string
---@param threads integer
---@return table?
function peer.contender(module, name, phase, threads)
  if requests == nil then requests = start(module) end
  if not requests or ask(name, phase, threads, 1) == "unknown" then return nil end
  return { "torch", function(n) return tonumber(ask(name, phase, threads, n)) end }
end

return peer
