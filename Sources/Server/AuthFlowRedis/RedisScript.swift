import AuthFlowDatabase
import Crypto

/// A script that the server runs atomically. Records are hashes whose keys end with `{digest}`, so that a cluster stores all data of
/// a record in one slot.
///
/// The lease is a field of the hash, not an expiring key. The fence would expire together with such a key, but it
/// must never decrease.
struct RedisScript: Sendable {
    let text: String
    /// The digest that identifies the script on the server (EVALSHA).
    let digest: String

    init(_ text: String) {
        self.text = Self.common + text
        self.digest = RecordMessage.hex(Array(Insecure.SHA1.hash(data: Array(self.text.utf8))))
    }

    /// Helper functions shared by all scripts, and the server's time in milliseconds.
    private static let common = """
        local t = redis.call('TIME')
        local now = t[1] * 1000 + math.floor(t[2] / 1000)
        local function field(name) return redis.call('HGET', KEYS[1], name) end
        local function number(name) return tonumber(field(name) or '') end
        local function alive()
          local expires, idle = number('expires'), number('idle_until')
          return (not expires or expires > now) and (not idle or idle > now)
        end
        local function held() return field('fence') == ARGV[1] and field('owner') == ARGV[2] end
        -- The key expires with the record, or with the lease if that is later. Without a record, the key is stored for
        -- ten more minutes: the holder may still write, and the next holder must detect the unfinished operation.
        local function keep()
          local last = math.min(number('expires') or math.huge, number('idle_until') or math.huge)
          local lease = number('lease_until') or 0
          if not field('sealed') then last = lease + 600000 end
          if last == math.huge then redis.call('PERSIST', KEYS[1])
          else redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.max(last, lease) + 1000)) end
        end

        """

    static let read = RedisScript(
        """
        if not alive() then return false end
        return field('sealed')
        """
    )

    /// Arguments: fence, owner.
    static let readUnderLease = RedisScript(
        """
        if not held() then return 0 end
        if not alive() then return false end
        return field('sealed')
        """
    )

    /// Arguments: owner, milliseconds, name of the record.
    static let take = RedisScript(
        """
        local owner, until_ = field('owner'), number('lease_until')
        if owner and owner ~= ARGV[1] and until_ and until_ > now then
          redis.call('HSET', KEYS[1], 'awaited', '1')
          -- The remaining lifetime exceeds the duration: the clock was set back. A live holder renews it in time.
          if until_ > now + ARGV[2] then
            until_ = now + ARGV[2]
            redis.call('HSET', KEYS[1], 'lease_until', string.format('%.0f', until_))
          end
          return {0, string.format('%.0f', until_ - now)}
        end
        if not alive() then redis.call('HDEL', KEYS[1], 'sealed', 'expires', 'idle_until', 'idle', 'used', 'tags') end
        -- A fence is a time in microseconds, so that it is greater than every earlier fence of the key, even those
        -- of a removed record. If the same owner retries after a lost or late reply, its lease remains valid.
        local fence = number('fence')
        if not fence or owner ~= ARGV[1] then fence = math.max((fence or 0) + 1, t[1] * 1000000 + t[2]) end
        local text = string.format('%.0f', fence)
        redis.call('HSET', KEYS[1], 'fence', text, 'owner', ARGV[1], 'lease_until', string.format('%.0f', now + ARGV[2]), 'record', ARGV[3])
        if owner and owner ~= ARGV[1] then
          if not field('written') then redis.call('HSET', KEYS[1], 'unfinished', '1') end
        end
        if owner ~= ARGV[1] then redis.call('HDEL', KEYS[1], 'written', 'awaited') end
        keep()
        return {1, text, field('unfinished') and 1 or 0}
        """
    )

    /// Arguments: fence, owner, milliseconds.
    static let renew = RedisScript(
        """
        if not held() then return 0 end
        redis.call('HSET', KEYS[1], 'lease_until', string.format('%.0f', now + ARGV[3]))
        keep()
        return 1
        """
    )

    /// Arguments: fence, owner, whether there are bytes, bytes, number of the write; with new attributes: lifetime, idle timeout (empty for none), tags.
    static let write = RedisScript(
        """
        if not held() or (number('written') or 0) > tonumber(ARGV[5]) then return 0 end
        if ARGV[3] == '1' then redis.call('HSET', KEYS[1], 'sealed', ARGV[4]) else redis.call('HDEL', KEYS[1], 'sealed') end
        redis.call('HDEL', KEYS[1], 'unfinished')
        redis.call('HSET', KEYS[1], 'written', ARGV[5])
        if ARGV[6] then
          redis.call('HSET', KEYS[1], 'used', string.format('%.0f', now), 'tags', ARGV[8])
          if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'expires', string.format('%.0f', now + ARGV[6]))
          else redis.call('HDEL', KEYS[1], 'expires') end
          if ARGV[7] ~= '' then redis.call('HSET', KEYS[1], 'idle', ARGV[7], 'idle_until', string.format('%.0f', now + ARGV[7]))
          else redis.call('HDEL', KEYS[1], 'idle', 'idle_until') end
        end
        keep()
        return 1
        """
    )

    /// Arguments: fence, owner, channel, message.
    static let release = RedisScript(
        """
        if not held() then return 0 end
        local awaited = field('awaited')
        redis.call('HDEL', KEYS[1], 'owner', 'lease_until', 'awaited')
        if field('sealed') then keep() else redis.call('DEL', KEYS[1]) end
        if awaited then redis.call('PUBLISH', ARGV[3], ARGV[4]) end
        return 1
        """
    )

    static let touch = RedisScript(
        """
        if not alive() or not field('sealed') then return 0 end
        local idle, age = number('idle'), now - (number('used') or 0)
        -- A time in the future is from before the clock was set back. Without a new time, the idle timeout would not
        -- apply until the clock has caught up.
        if age < 0 or age >= math.min((idle or 600000) / 10, 60000) then
          redis.call('HSET', KEYS[1], 'used', string.format('%.0f', now))
          if idle then redis.call('HSET', KEYS[1], 'idle_until', string.format('%.0f', now + idle)) end
          keep()
        end
        return 1
        """
    )

    /// Returns the fields of a record for a list: name, bytes, time of the last use, tags.
    static let show = RedisScript(
        """
        if not alive() or not field('sealed') then return false end
        return {field('record'), field('sealed'), field('used') or '0', field('tags') or ''}
        """
    )

    /// Arguments: channel, message. Returns the same fields as ``show``.
    static let remove = RedisScript(
        """
        local shown = false
        if alive() and field('sealed') then
          shown = {field('record'), field('sealed'), field('used') or '0', field('tags') or ''}
        end
        if redis.call('DEL', KEYS[1]) == 1 then redis.call('PUBLISH', ARGV[1], ARGV[2]) end
        return shown
        """
    )

    /// Arguments: milliseconds, name of the record.
    static let claim = RedisScript(
        """
        if redis.call('EXISTS', KEYS[1]) == 1 and alive() then return 0 end
        redis.call('DEL', KEYS[1])
        redis.call('HSET', KEYS[1], 'record', ARGV[2], 'sealed', '', 'expires', string.format('%.0f', now + ARGV[1]))
        keep()
        return 1
        """
    )

    /// Adds a digest to a tag's set, which is sorted by the expiry of the records, and removes expired digests. The set expires with its
    /// longest-lived record. A record without an expiry has an expiry in the distant future, so that every addition has a different score.
    /// Arguments: digest, milliseconds (empty for no expiry).
    static let tag = RedisScript(
        """
        redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
        local first = redis.call('EXISTS', KEYS[1]) == 0
        local rest = redis.call('PTTL', KEYS[1])
        if ARGV[2] == '' then
          redis.call('ZADD', KEYS[1], string.format('%.0f', now + 1e15), ARGV[1])
          redis.call('PERSIST', KEYS[1])
        else
          redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
          if first or (rest >= 0 and rest < tonumber(ARGV[2])) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
        end
        return 1
        """
    )

    /// Removes the digest of a removed record from a tag's set, unless it has been added again since its score was read: another process may have
    /// stored a new record under the same key in the meantime. Arguments: digest, score.
    static let untag = RedisScript(
        """
        if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
        return redis.call('ZREM', KEYS[1], ARGV[1])
        """
    )
}
