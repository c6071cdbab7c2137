-- How errors of a run reach the user of the command line: mistakes in one line, errors of the script's functions with their
-- traceback, closed pipes in silence.
local process = require "process"

local SCRIPT = [[
local optlua = require "optlua"
local nn = optlua.nn
local kind = os.getenv "KIND"
local function deep() error "boom" end
return optlua.spec {
  name = "mistaken",
  config = { steps = 2, width = 4, optimizer = { class = "SGD", lr = 0.1 } },
  build_model = function(cfg) return nn.Sequential { nn.Linear(4, cfg.width) } end,
  build_data = function() return optlua.testing.points() end,
  build_loss = kind ~= "no loss" and function() return nn.CrossEntropyLoss() end or nil,
  train_step = function(state, batch, default)
    local loss, count = default(state, batch)
    return kind == "nan" and loss * (0 / 0) or loss, count
  end,
  on_step = function(state)
    if kind == "error" then deep() elseif kind == "nil" then return state.nothing.at_all end
  end,
}
]]

describe("an error of a run", function()
  local folder
  setup(function()
    folder = process.folder()
    process.write(folder .. "/script.lua", SCRIPT)
  end)
  teardown(function() process.remove(folder) end)

  local function says(kind, words)
    local result = process.run(folder, ("KIND='%s' optlua script.lua %s"):format(kind, words or ""))
    assert.equal(1, result.code)
    return result.err
  end

  it("that is a mistake of the user is one line", function()
    assert.equal("optlua: script.lua:8: nn.Linear: out_features: expected an integer at least 0, got -3\n", says("", "--width=-3"))
    assert.equal("optlua: nofile: cannot be read: No such file or directory\n", says("", "--from nofile"))
    assert.matches("^optlua: the loss is nan at update 0 [^\n]*\n$", says "nan")
    assert.equal("optlua: the spec has neither build_loss nor a section loss in its config\n", says "no loss")
  end)

  it("in a function of the script has its traceback", function()
    assert.matches("^optlua: script.lua:4: boom\nstack traceback:\n.*script.lua:4: in upvalue 'deep'", says "error")
    assert.matches("^optlua: script.lua:16: attempt to index a nil value %(field 'nothing'%)\nstack traceback:", says "nil")
    assert.equal(1, select(2, says("nil"):gsub("stack traceback", "")))
    assert.equal("optlua: script.lua:16: attempt to index a nil value (field 'nothing')\nstack traceback:\n\tscript.lua:16: in field '?'\n",
      says "nil")
  end)

  it("is none when nobody reads what is printed", function()
    local result = process.run(folder, "{ sleep 0.3; optlua script.lua --plan; echo $? >&2; } | true")
    assert.equal("141\n", result.err)
  end)
end)
