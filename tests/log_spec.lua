-- Logs: every digit, record by record; files that cannot be written; SIGHUP and --watch are in reload_spec.
local optlua = require "optlua"
local decode = require("optlua.core").hidden.json_decode
local files = require "files"
local log = require "optlua.spec.log"
local process = require "process"
local nn, data = optlua.nn, optlua.data

local SCRIPT = [[
local optlua = require "optlua"
local x = optlua.arange(0, 16):to "float32":reshape(16, 1) / 16
return optlua.spec {
  name = "line",
  config = { seed = 1, epochs = 3, batch_size = 4, optimizer = { class = "SGD", lr = 0.1 } },
  build_model = function() return optlua.nn.Linear(1, 1) end,
  build_data = function() return optlua.data.tensors(x, 2 * x), optlua.data.tensors(x, 2 * x) end,
  build_loss = function() return optlua.nn.MSELoss() end,
  on_end = function(state) print(("end at %d"):format(state.step)) end,
}
]]

local function lines_of(path)
  local list = {}
  for line in io.lines(path) do list[#list + 1] = line end
  return list
end

local function count(text, part)
  return select(2, text:gsub(part:gsub("%p", "%%%0"), ""))
end

-- Runs the script in a folder of its own, after some words of the shell; visit(result, folder).
local function with_run(before, words, visit)
  files.with_folder(function(folder)
    files.write(folder .. "/line.lua", SCRIPT)
    visit(process.run(folder, before .. "\noptlua line.lua " .. words), folder)
  end)
end

describe("a log", function()
  it("is read back bit for bit", function()
    local values = { 0.1, 1 / 3, math.pi, 1e-310, 5e-324, 1.7976931348623157e308, -0.0, 2 ^ 53 + 0.0, 1e22, 123456789.12345678 }
    for k = 1, 200 do
      local bits = (k * 0x9e3779b97f4a7c15) ~ (k << 31)
      local value = string.unpack("d", string.pack("i8", bits))
      if value - value == 0 then values[#values + 1] = value end
    end
    files.with_folder(function(folder)
      local file = log.new(folder)
      for k, value in ipairs(values) do file:write { step = k, value = value } end
      file:close()
      local json, csv = lines_of(folder .. "/log.jsonl"), lines_of(folder .. "/log.csv")
      assert.equal("step,value", csv[1])
      for k, value in ipairs(values) do
        local bits = string.pack("d", value)
        assert.equal(bits, string.pack("d", decode(json[k]).value))
        assert.equal(bits, string.pack("d", 1.0 * tonumber(csv[k + 1]:match ",(.*)")), csv[k + 1])
      end
    end)
  end)

  it("goes out record by record", function()
    files.with_folder(function(folder)
      local seen = {}
      local x = optlua.ones(8, 1)
      optlua.spec { name = "x", config = { steps = 4, batch_size = 2, optimizer = { class = "SGD" } },
        build_model = function() return nn.Linear(1, 1) end, build_data = function() return data.tensors(x, x) end,
        build_loss = function() return nn.MSELoss() end,
        train_step = function(state, batch, default)
          seen[#seen + 1] = { #lines_of(folder .. "/log.jsonl"), #lines_of(folder .. "/log.csv") }
          return default(state, batch)
        end }:run({}, { out = folder })
      assert.same({ { 0, 0 }, { 1, 2 }, { 2, 3 }, { 3, 4 } }, seen)
    end)
  end)

  it("says what is no number, and quotes names and words", function()
    files.with_folder(function(folder)
      local file = log.new(folder)
      file:write { step = 1, a = 0 / 0, b = -math.huge, ['c,"d"'] = "x\ny" }
      file:write { step = 2, a = 1, new = 5 }
      file:write { event = "note", step = 2, a = 7 }
      file:close()
      assert.equal('step,a,b,"c,""d"""\n1,nan,-inf,"x\ny"\n2,1,,\n', files.read(folder .. "/log.csv"))
      local json = lines_of(folder .. "/log.jsonl")
      assert.equal('{"a":1,"new":5,"step":2}', json[2])
      assert.equal('{"a":7,"event":"note","step":2}', json[3])
      assert.equal(3, #json)
    end)
  end)

  it("that is continued keeps its columns", function()
    files.with_folder(function(folder)
      for step, record in ipairs { { a = 1, b = 2 }, { b = 4, a = 3, c = 5 } } do
        local file <close> = log.new(folder)
        record.step = step
        file:write(record)
      end
      assert.same({ "step,a,b", "1,1,2", "2,3,4" }, lines_of(folder .. "/log.csv"))
    end)
  end)
end)

describe("a log that cannot be written", function()
  it("because the device is full is said once, the run goes on, and the status tells", function()
    with_run("mkdir out && ln -s /dev/full out/log.csv", "--out out", function(result, folder)
      assert.equal("optlua: out/log.csv: cannot be written (No space left on device); the run goes on\n", result.err)
      assert.equal(1, result.code)
      assert.matches("end at 12\n", result.out)
      assert.equal(17, #lines_of(folder .. "/out/log.jsonl")) -- 12 steps, 3 validations, 2 checkpoints
      assert.is_truthy(io.open(folder .. "/out/last.safetensors"))
    end)
  end)

  it("because no file may grow further is said once for each", function()
    with_run("trap '' XFSZ; ulimit -f 8", "--out out --epochs 30", function(result)
      assert.equal(1, count(result.err, "log.jsonl: cannot be written (File too large)"))
      assert.equal(1, count(result.err, "log.csv: cannot be written (File too large)"))
      assert.equal(1, count(result.err, ".optlua: cannot be written (File too large)"))
      assert.equal(3, count(result.err, "\n"), result.err)
      assert.equal(1, result.code)
      assert.matches("end at 120\n", result.out)
    end)
  end)

  it("because the folder takes no file is said, and the run goes on", function()
    local as_nobody = process.run(".", "id -u").out == "0\n" and "setpriv --reuid=65534 --regid=65534 --clear-groups " or ""
    with_run(("mkdir out; chmod 555 out; chmod 755 .; %soptlua line.lua --out out; exit $?"):format(as_nobody), "", function(result)
      for _, name in ipairs { "log.jsonl", "log.csv", "config.lua", "run.json", "best.safetensors", "last.safetensors" } do
        assert.equal(1, count(result.err, ("optlua: out/%s: cannot be written ("):format(name)), name .. "\n" .. result.err)
      end
      assert.equal(1, count(result.err, "events.out.tfevents."))
      assert.equal(1, result.code)
      assert.matches("end at 12\n", result.out)
    end)
  end)

  it("is no matter where all can be", function()
    with_run("", "--out out", function(result, folder)
      assert.same({ "", 0 }, { result.err, result.code })
      assert.equal(13, #lines_of(folder .. "/out/log.csv"))
    end)
  end)
end)
