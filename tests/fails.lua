-- Calls that must fail, and what their message says. Arguments after the function are handed to it.
local assert = require "luassert"

local fails = {}

local function message_of(wanted, fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok, "an error was expected: " .. wanted)
  return tostring(message)
end

local function check(wanted, message, plain)
  assert.is_truthy(message:find(wanted, 1, plain), ("%q does not match %q"):format(message, wanted))
  return message
end

--- The message matches a Lua pattern; returns it.
function fails.matching(pattern, fn, ...) return check(pattern, message_of(pattern, fn, ...), false) end

--- The message contains a text; returns it.
function fails.containing(text, fn, ...) return check(text, message_of(text, fn, ...), true) end

return fails
