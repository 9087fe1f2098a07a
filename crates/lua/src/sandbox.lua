-- What scripts see. Arguments: Lua's own globals, our functions, and our libraries by name.
local base, ours, libraries = ...
local error, type, rawpcall, rawxpcall = base.error, base.type, base.pcall, base.xpcall
local rawnext, rawpairs, rawget, rawset = base.next, base.pairs, base.rawget, base.rawset
local setmetatable, getmetatable, tostring = base.setmetatable, base.getmetatable, base.tostring
local collect, concat = base.collectgarbage, base.table.concat
local caught, load_text = ours.caught, ours.load_text
local READONLY = 'Attempt to modify a readonly table'

-- By each table that a script gets in place of a protected one, that one.
local hidden = {}

local function protect(inner)
  local outer = {}
  hidden[outer] = inner
  return setmetatable(outer, {
    __index = inner,
    __newindex = function() error(READONLY, 2) end,
    __metatable = false,
  })
end

local function missing(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

-- Lua's functions that need nothing in front of them.
local globals = {}
for _, name in base.ipairs {
  '_VERSION', 'assert', 'error', 'gcinfo', 'ipairs', 'rawequal', 'select', 'tonumber', 'tostring',
  'type', 'unpack',
} do
  globals[name] = base[name]
end

local function text_results(ok, ...)
  if ok then return true, ... end
  return false, caught((...), false)
end

local function table_results(ok, ...)
  if ok then return true, ... end
  return false, caught((...), true)
end

function globals.pcall(...)
  return text_results(rawpcall(...))
end

function globals.xpcall(call, handle)
  return table_results(rawxpcall(call, function(value)
    local ok, seen = rawpcall(caught, value, true)
    -- What nobody may catch passes.
    if not ok then return value end
    return handle(seen)
  end))
end

function globals.getmetatable(value)
  return getmetatable(value)
end

function globals.setmetatable(outer, meta)
  if hidden[outer] then error(READONLY, 0) end
  if type(outer) ~= 'table' then
    error("bad argument #1 to 'setmetatable' (table expected, got " .. type(outer) .. ')', 2)
  end
  if meta ~= nil and type(meta) ~= 'table' then
    error("bad argument #2 to 'setmetatable' (nil or table expected)", 2)
  end
  return setmetatable(outer, meta)
end

function globals.rawset(outer, key, value)
  if hidden[outer] then error(READONLY, 0) end
  return rawset(outer, key, value)
end

function globals.rawget(outer, key)
  return rawget(hidden[outer] or outer, key)
end

function globals.next(outer, key)
  return rawnext(hidden[outer] or outer, key)
end

function globals.pairs(outer)
  local inner = hidden[outer]
  if inner then
    return function(_, key) return rawnext(inner, key) end, outer, nil
  end
  if type(outer) ~= 'table' then
    error("bad argument #1 to 'pairs' (table expected, got " .. type(outer) .. ')', 2)
  end
  return rawpairs(outer)
end

-- The collector is everybody's: a script may run it and not change it.
function globals.collectgarbage(option, value)
  if option == nil or option == 'collect' or option == 'count' or option == 'step' then
    return collect(option, value)
  end
  return 0
end

function globals.loadstring(text, name)
  return load_text(text, name or text)
end

function globals.load(read, name)
  if type(read) ~= 'function' then
    error("bad argument #1 to 'load' (function expected, got " .. type(read) .. ')', 2)
  end
  local parts = {}
  while true do
    local part = read()
    if part == nil or part == '' then break end
    if type(part) ~= 'string' then return nil, 'reader function must return a string' end
    parts[#parts + 1] = part
  end
  return load_text(concat(parts), name or '=(load)')
end

local coroutine = {}
for _, name in base.ipairs { 'create', 'running', 'status', 'wrap', 'yield' } do
  coroutine[name] = base.coroutine[name]
end
local resume = base.coroutine.resume
function coroutine.resume(...)
  return text_results(resume(...))
end

local inner = { coroutine = coroutine, string = base.string, table = base.table, math = base.math }
inner.math.random, inner.math.randomseed = ours.random, ours.randomseed
for name, library in rawpairs(libraries) do
  inner[name] = library
end
for name, library in rawpairs(inner) do
  globals[name] = protect(library)
end
getmetatable('').__metatable = protect { __index = globals.string }
local outer = protect(globals)
globals._G = outer
setmetatable(globals, { __index = missing })

local function run(call, on_error)
  return rawxpcall(call, on_error)
end

local function run_with(call, on_error, keys, args)
  return rawxpcall(function() return call(keys, args) end, on_error)
end

-- Takes out what a script has put into protected tables by table.insert and the like.
local function clean()
  for proxy in rawpairs(hidden) do
    local key = rawnext(proxy)
    while key ~= nil do
      rawset(proxy, key, nil)
      key = rawnext(proxy)
    end
  end
end

-- While a library is loaded, the table redis has no field that is not there.
local function strict(is_strict)
  setmetatable(inner.redis, is_strict and { __index = missing } or nil)
end

return outer, globals, run, run_with, clean, strict
