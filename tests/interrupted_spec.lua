-- SIGINT, real ones, at many an instruction of what must be whole: it is whole then, and the error has been raised.
local process = require "process"

local place
before_each(function() place = process.folder() end)
after_each(function() process.remove(place) end)

-- A process with one SIGINT at an instruction of each trial. Each line of what is read from stdin has one of its own; the second
-- in one stretch of Lua would end the process.
local PRELUDE = [[
optlua = require "optlua"
checkpoint, nn, optim = optlua.checkpoint, optlua.nn, optlua.optim
host = require("optlua.core").hidden

function text(value)
  if optlua.is_tensor(value) then value = value:reshape(-1):totable() end
  return type(value) == "table" and table.concat(value, " ") or tostring(value)
end

-- All that weights and states are.
function all_of(parts)
  local list = {}
  for _, part in ipairs(parts) do
    for key, value in pairs(part:state_dict()) do list[#list + 1] = key .. "=" .. text(value) end
  end
  table.sort(list)
  return table.concat(list, "\n")
end

function count(fn)
  local count = 0
  debug.sethook(function() count = count + 1 end, "", 1)
  fn()
  debug.sethook()
  return count
end

-- Calls a function that gets a SIGINT at its n-th instruction: what pcall gives.
function interrupted(n, fn)
  debug.sethook(function()
    debug.sethook()
    io.popen("kill -INT $PPID"):close()
  end, "", n)
  return pcall(fn)
end

-- One trial for each line: prints what it says.
function trial(k, of)
  make()
  local n = math.max(5, total * k // of)
  local ok, problem = interrupted(n, act)
  debug.sethook()
  local said = check(ok, problem)
  if said or ok or not tostring(problem):find("interrupted!", 1, true) then
    print(("%d of %d: %s (%s, %s)"):format(n, total, said, ok, problem))
  end
end
]]

-- Runs trials; the script has globals: make() begins anew, act() is what is interrupted, check(ok, problem) gives what is wrong.
local function tear(script, trials)
  process.write(place .. "/s.lua", PRELUDE .. script .. "\nmake()\ntotal = count(act)\n")
  local lines = { "_PROMPT = ''" }
  for k = 0, trials - 1 do lines[#lines + 1] = ("trial(%d, %d)"):format(k, trials) end
  lines[#lines + 1] = "print 'done'"
  local result = process.run(place, "optlua -i s.lua", table.concat(lines, "\n") .. "\n")
  assert.equal("", result.err)
  assert.matches("^optlua [^\n]*\n> done\n", result.out)
end

describe("SIGINT", function()
  it("in a step of an optimizer leaves no update, or a whole one with its counts", function()
    tear([[
      optlua.manual_seed(1)
      model = nn.Linear(2, 2)
      function make()
        model.weight:detach():fill_(1)
        optimizer = optim.container(model, { { name = "a", match = "weight", class = optim.AdamW },
          { name = "b", match = "*", class = optim.SGD, momentum = 0.9 } }, { ema = 0.9, max_norm = 1 })
        scheduler = optim.lr_scheduler(optimizer, function(t) return 0.9 ^ t end)
        model(optlua.ones { 1, 2 }):sum():backward()
      end
      function act() optimizer:step() end
      function check()
        local state = optimizer:state_dict()
        local updates = state.updates
        for _, key in ipairs { "group.a.step", "group.b.step", "state.weight.step", "state.bias.step" } do
          if state[key] ~= updates then return key .. " is " .. state[key] end
        end
        if model.weight:equal(optlua.ones { 2, 2 }) ~= (updates == 0) then return "the weights" end
      end
    ]], 150)
  end)
end)
