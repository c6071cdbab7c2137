-- Userdata of every kind that the library makes, treated as no script should: called with each other, with exchanged metatables, by
-- their finalizers, after their end, from coroutines and out of deep recursion. There are errors, or nothing, never a crash.
local optlua = require "optlua"
local core = require "optlua.core"
local process = require "process"
local host = core.hidden

local place
before_each(function() place = process.folder() end)
after_each(function() process.remove(place) end)

-- One of every kind, by name, and what its kind's functions are.
local function make()
  local path, made = place .. "/" .. math.random(1 << 50), {}
  process.write(path .. ".csv", "a,b\n1,2\n")
  process.write(path .. ".bin", ("\1\0"):rep(100))
  optlua.save(path .. ".safetensors", { x = optlua.ones(2) })
  made["optlua.csv"] = host.csv_read(path .. ".csv", ",", '"')
  made["optlua.events"] = assert(host.events_create(path .. ".events", 1))
  made["optlua.lock"] = host.lock(path .. ".lock")
  made["optlua.tokens"] = host.tokens_open(path .. ".bin", "nanogpt", "uint16")
  made["optlua.safetensors"] = host.safetensors_open(path .. ".safetensors")
  made["optlua.group"] = host.optim.group({ "w" }, { optlua.ones({ 2 }, { requires_grad = true }) })
  made["optlua.updater"] = host.optim.updater(print, false)
  made["optlua.programs"] = host.optim.cache(4)
  made.tensor = optlua.ones(2, 2)
  made.file = io.tmpfile()
  return made
end

-- Functions that take a userdata first.
local functions = {}
for name, fn in pairs(host) do
  local kind = name:match "^(csv)_" or name:match "^(events)_" or name:match "^(tokens)_" or name:match "^(safetensors)_"
  if kind and type(fn) == "function" and not name:find "_open$" and not name:find "_create$" and name ~= "csv_read"
    and not name:find "_write$" then
    functions[#functions + 1] = { name, fn }
  end
end

-- The functions in a metatable, and in its __index.
local function methods_of(value)
  local list, meta = {}, debug.getmetatable(value) or {}
  for event, fn in pairs(meta) do
    if type(fn) == "function" then list[#list + 1] = { event, fn } end
  end
  for name, fn in pairs(type(meta.__index) == "table" and meta.__index or {}) do
    if type(fn) == "function" then list[#list + 1] = { name, fn } end
  end
  table.sort(list, function(a, b) return tostring(a[1]) < tostring(b[1]) end)
  return list
end

local function call(name, fn, ...)
  local ok, message = pcall(fn, ...)
  if not ok then assert(message == nil or type(message) == "string", name) end
end

-- Calls everything that takes a userdata of ours with this value, in place of theirs.
local function call_all(value, all)
  for kind, other in pairs(all) do
    for _, method in ipairs(kind == "file" and {} or methods_of(other)) do
      call(method[1], method[2], value)
      call(method[1], method[2], value, 1, 1)
      call(method[1], method[2], value, value, value)
    end
  end
  for _, pair in ipairs(functions) do
    call(pair[1], pair[2], value)
    call(pair[1], pair[2], value, 1, 1, "x", optlua.ones(1))
  end
end

describe("userdata", function()
  it("of all kinds are made here", function()
    local all = make()
    for _, kind in ipairs { "csv", "events", "lock", "tokens", "safetensors", "group", "programs", "updater" } do
      assert.equal("userdata", type(all["optlua." .. kind]), kind)
      assert.equal("optlua." .. kind, debug.getmetatable(all["optlua." .. kind]).__name)
    end
    local registered = {}
    for key in pairs(debug.getregistry()) do
      if type(key) == "string" and key:find "^optlua%." then registered[#registered + 1] = key end
    end
    -- Tables, and what no script is handed:
    local others = { ["optlua.context"] = true, ["optlua.hook"] = true, ["optlua.sizes"] = true, ["optlua.json"] = true,
      ["optlua.folder"] = true, ["optlua.text"] = true }
    for _, kind in ipairs(registered) do assert(all[kind] or others[kind], kind .. " is a new kind: make one here") end
  end)

  it("called on each other, on numbers and on nothing give errors", function()
    local all = make()
    for kind, value in pairs(all) do
      local rest = {}
      for other, item in pairs(all) do
        if other ~= kind then rest[other] = item end
      end
      call_all(value, rest)
    end
    for _, value in ipairs { false, 1, "x", {}, print, coroutine.create(print) } do call_all(value, all) end
    for _, method in ipairs(methods_of(all["optlua.group"])) do call(method[1], method[2]) end
  end)

  it("with exchanged metatables give errors", function()
    local kinds = {}
    for kind in pairs(make()) do kinds[#kinds + 1] = kind end
    for _, kind in ipairs(kinds) do
      for _, other in ipairs(kinds) do
        local all = make()
        local value, own = all[kind], debug.getmetatable(all[kind])
        if kind ~= other and kind ~= "file" and other ~= "file" then
          debug.setmetatable(value, debug.getmetatable(all[other]))
          call_all(value, all)
          pcall(tostring, value)
          debug.setmetatable(value, own)
        end
      end
    end
  end)

  it("finalized by hand, once and again, give errors afterwards", function()
    for _, event in ipairs { "__gc", "__close" } do
      local all = make()
      for _ = 1, 2 do
        for kind, value in pairs(all) do
          local finalize = kind ~= "file" and debug.getmetatable(value)[event]
          if finalize then finalize(value) end
        end
      end
      for kind, value in pairs(all) do
        if kind ~= "file" then call_all(value, { [kind] = value }) end
      end
    end
  end)

  it("work from coroutines, that end in the middle too, and out of deep recursion", function()
    local all = make()
    local thread = coroutine.create(function()
      local lock <close> = host.lock(place .. "/lock") -- luacheck: ignore
      call_all(optlua.ones(2), all)
      coroutine.yield()
    end)
    assert(coroutine.resume(thread))
    assert.is_true(coroutine.close(thread))
    getmetatable(assert(host.lock(place .. "/lock"))).__close(all["optlua.lock"])
    local function deep(k)
      optlua.ones(2):add(1)
      if k > 0 then return deep(k - 1) + 1 end
      return 0
    end
    call("deep", deep, 150000)
    local function meta(k) return setmetatable({}, { __index = function(_, key) return meta(k + 1)[key] end }) end
    call("meta", function() return optlua.ones(meta(1)) end)
    assert.equal(2, optlua.ones(2):sum():item())
  end)

  it("of an optimizer that takes a step cannot be finalized beneath it", function()
    local transact = host.optim.transact
    local name, engine = debug.getupvalue(transact, 1)
    assert(name and type(engine) == "userdata")
    local w = optlua.ones({ 2 }, { requires_grad = true })
    local wicked = optlua.optim.define { name = "Wicked", hyper = { lr = 0.1 }, update = function(p, g, _, h)
      debug.getmetatable(engine).__gc(engine)
      debug.getmetatable(engine).__gc(1)
      return p - h.lr * g
    end }
    local optimizer = wicked { w }
    w:sum():backward()
    optimizer:step()
    assert.near(0.9, w[1]:item(), 1e-6)
    debug.getmetatable(engine).__gc(engine)
    w:sum():backward()
    optimizer:step()
    assert.near(0.7, w[1]:item(), 1e-6)
  end)

  it("survive a script that takes the metatables of all types", function()
    process.write(place .. "/x.lua", [[
      local optlua = require "optlua"
      for _, value in ipairs { 1, "x", print, true, coroutine.create(print) } do
        debug.setmetatable(value, { __index = error, __call = error, __len = error, __tostring = function() return "t" end, __gc = error })
      end
      debug.setmetatable(nil, { __index = function() return nil end, __call = function() end })
      local ok = pcall(function()
        local model = optlua.nn.Linear(2, 1)
        local optimizer = optlua.optim.AdamW(model)
        model(optlua.ones { 1, 2 }):sum():backward()
        optimizer:step()
        optlua.checkpoint.save("c", { model = model, optimizer = optimizer })
      end)
      io.write(type(ok), "\n")
    ]])
    assert.same({ 0, "boolean\n" }, { process.run(place, "optlua x.lua").code, process.run(place, "optlua x.lua").out })
  end)
end)
