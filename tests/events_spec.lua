-- Event files: the bytes that TensorBoard's own writer makes, and what a run puts into them.
local optlua = require "optlua"
local host = require("optlua.core").hidden
local files = require "files"
local process = require "process"
local nn, data = optlua.nn, optlua.data

local fails = require("fails").matching

-- The events of golden/make_events.py.
local function write_golden(path)
  local events = assert(host.events_create(path, 1.5))
  assert.is_true(host.events_scalars(events, 2.5, 7, { "loss", "lr/default" }, { 0.1, math.huge }))
  assert.is_true(host.events_histogram(events, 3.5, -1, "w", optlua.tensor { -1, 0, 0.5, 0.5, 0 / 0 }))
  assert.is_true(host.events_resume(events, 4.5, 9))
  assert.is_true(host.events_close(events))
end

-- The messages of a file, as bytes.
local function messages(bytes)
  local list, at = {}, 1
  while at <= #bytes do
    local size = string.unpack("<I8", bytes, at)
    list[#list + 1] = bytes:sub(at + 12, at + 11 + size)
    at = at + 16 + size
  end
  return list
end

-- The only event file of a folder.
local function event_file(folder)
  local pipe = assert(io.popen("ls " .. folder .. " | grep tfevents | sed 's|^|" .. folder .. "/|'"))
  local name = pipe:read "l"
  assert.is_nil(pipe:read "l")
  pipe:close()
  return name
end

local function count(list, text)
  local n = 0
  for _, message in ipairs(list) do
    if message:find(text, 1, true) then n = n + 1 end
  end
  return n
end

describe("an event file", function()
  it("has the bytes of TensorBoard's own writer", function()
    files.with_folder(function(folder)
      write_golden(folder .. "/x")
      assert.equal(files.read "tests/golden/events.tfevents", files.read(folder .. "/x"))
    end)
  end)

  it("is written record by record, and never over another", function()
    files.with_folder(function(folder)
      local path = folder .. "/x"
      local events = assert(host.events_create(path, 0))
      for n = 1, 3 do
        assert(host.events_scalars(events, n, n, { "x" }, { n }))
        assert.equal(n + 1, #messages(files.read(path)))
      end
      assert.same({ nil, "File exists" }, { host.events_create(path, 0) })
      assert.same({ nil, "No such file or directory" }, { host.events_create(folder .. "/none/x", 0) })
      assert.is_true(host.events_close(events))
      assert.is_true(host.events_close(events))
      fails("the event file is closed", host.events_scalars, events, 1, 1, {}, {})
    end)
  end)

  it("holds a histogram of any tensor", function()
    files.with_folder(function(folder)
      local events = assert(host.events_create(folder .. "/x", 0))
      local function bytes_of(tensor)
        assert(host.events_histogram(events, 0, 0, "t", tensor))
        local list = messages(files.read(folder .. "/x"))
        return list[#list]
      end
      local plain = bytes_of(optlua.tensor { { 1, 2 }, { 3, 4 } })
      assert.equal(plain, bytes_of(optlua.tensor({ { 1, 3 }, { 2, 4 } }):t()))
      for _, dtype in ipairs { "float64", "bfloat16", "int64", "uint8" } do
        assert.equal(plain, bytes_of(optlua.tensor({ 4, 3, 2, 1 }):to(dtype)), dtype)
      end
      local none = bytes_of(optlua.zeros(0))
      assert.equal(none, bytes_of(optlua.tensor { 0 / 0, 1 / 0, -1 / 0 }))
      assert.truthy(none:find(string.pack("<d", 1.7976931348623157e308), 1, true))
      local wide = bytes_of(optlua.tensor({ 1.7976931348623157e308, -1.7976931348623157e308, 1e-300, -1e-300 }, { dtype = "float64" }))
      assert.truthy(wide:find(string.pack("<d", 1.7976931348623157e308), 1, true))
      fails("tensor expected", host.events_histogram, events, 0, 0, "t", 5)
    end)
  end)

  it("leaves nothing behind when an allocation fails", function()
    files.with_folder(function(folder)
      local n = 0
      assert.is_true(files.fail_allocations(function()
        n = n + 1
        write_golden(("%s/%d"):format(folder, n))
      end) >= 4)
    end)
  end)
end)

describe("a run's event file", function()
  local function run(folder, more)
    local x = optlua.arange(0, 16):to "float32":reshape(16, 1) / 16
    local fields = { name = "line", config = { seed = 1, epochs = 2, batch_size = 4, optimizer = { class = "SGD", lr = 0.1 } },
      build_model = function() return nn.Linear(1, 1) end,
      build_data = function() return data.tensors(x, 2 * x), data.tensors(x, 2 * x) end,
      build_loss = function() return nn.MSELoss() end }
    for key, value in pairs(more) do fields[key] = value end
    return optlua.spec(fields):run({}, { out = folder })
  end

  it("holds each number of the log, and the tensors that are noted", function()
    files.with_folder(function(folder)
      run(folder, {
        train_step = function(state, batch, default)
          state:histogram("before", state.model.weight)
          return default(state, batch)
        end,
        on_step = function(state)
          state:histogram("after", state.model.weight)
          state:log("twice.step", 2 * state.step)
        end,
        on_validation = function(state) state:log("seen", state.step) end,
        on_end = function(state) state:log("score", 3) end,
      })
      local list = messages(files.read(event_file(folder)))
      for tag, n in pairs { ["\4loss"] = 8, ["lr/default"] = 8, ["twice/step"] = 8, ["\6before"] = 8, ["\5after"] = 8,
        ["validation/loss"] = 2, ["validation/seen"] = 2, ["end/score"] = 1, ["validation/epoch"] = 0 } do
        assert.equal(n, count(list, tag), tag)
      end
      local before, after = {}, {}
      for _, message in ipairs(list) do
        local values = message:match "\6before(.*)$"
        if values then before[#before + 1] = values end
        values = message:match "\5after(.*)$"
        if values then after[#after + 1] = values end
      end
      for k = 2, 8 do assert.equal(after[k - 1], before[k]) end -- noted as they were at that moment
      assert.not_equal(before[1], after[1])
    end)
  end)

  it("voids what others hold of later steps when the run goes on", function()
    files.with_folder(function(folder)
      files.write(folder .. "/line.lua", [[
        local optlua = require "optlua"
        local x = optlua.ones(16, 1)
        return optlua.spec { name = "line", config = { steps = 4, batch_size = 4, optimizer = { class = "SGD" } },
          build_model = function() return optlua.nn.Linear(1, 1) end,
          build_data = function() return optlua.data.tensors(x, x) end, build_loss = function() return optlua.nn.MSELoss() end }
      ]])
      local result = process.run(folder, "optlua line.lua --out out && mkdir old && mv out/*tfevents* old "
        .. "&& optlua line.lua --resume out --steps 6")
      assert.equal("", result.err)
      local start = "^\9........\16\5:\2\8\1$" -- at step 5
      local before, after = messages(files.read(event_file(folder .. "/old"))), messages(files.read(event_file(folder .. "/out")))
      for _, message in ipairs(before) do assert.not_matches(start, message) end
      assert.matches(start, after[2])
      assert.equal(2, count(after, "\4loss"))
    end)
  end)

  it("is left out if so wished", function()
    files.with_folder(function(folder)
      run(folder, { config = { epochs = 1, tensorboard = false, optimizer = { class = "SGD" } },
        on_step = function(state) state:histogram("weight", state.model.weight) end })
      assert.is_nil(event_file(folder))
    end)
  end)

  it("takes tensors, by names that are free", function()
    files.with_folder(function(folder)
      local runs = 0
      local function on_step(fn)
        runs = runs + 1
        return function() run(folder .. "/" .. runs, { on_step = fn }) end
      end
      fails("state:histogram: weight: a tensor expected, got a number", on_step(function(state) state:histogram("weight", 5) end))
      fails("state:histogram: a word for a name expected, got nil", on_step(function(state) state:histogram() end))
      fails("state:log: step is written by the loop; choose another name", on_step(function(state) state:log("step", 1) end))
      fails("state:histogram: epoch is written by the loop", on_step(function(state) state:histogram("epoch", optlua.ones(1)) end))
    end)
  end)
end)
