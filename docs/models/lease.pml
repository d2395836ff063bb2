/*
 * The protocol by which processes share a refresh token that is used once: a lease with a fence, a rotation at the provider, a write.
 *
 * PROCESSES processes, ROTATIONS refreshes, and at most FAULTS faults: a process is killed, is paused for longer than its lease lasts, a
 * response is cut off, a write fails, a write is executed late, or the session is removed. Every interleaving is tried. The states of a process are the
 * steps in docs/architecture.md, "One refresh".
 *
 *   spin -a lease.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan     (or: make models)
 */

#ifndef PROCESSES
#define PROCESSES 3
#endif
#ifndef ROTATIONS
#define ROTATIONS 2
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
/* Mutants, each of which breaks a rule: see make models. */
#ifndef FENCED_WRITE
#define FENCED_WRITE 1
#endif
#ifndef FENCED_READ
#define FENCED_READ 1
#endif
#ifndef NUMBERED_WRITE
#define NUMBERED_WRITE 1
#endif
#ifndef CHECKED_SEND
#define CHECKED_SEND 1
#endif
#ifndef UNDER_LEASE
#define UNDER_LEASE 1
#endif

#define NOBODY 255

/* The store: the record of one session. A grant is what a user granted at a sign-in; its tokens are numbered. */
byte owner = NOBODY;        /* who has the lease */
byte fence = 0;             /* the number of the last lease */
bool has_expired = false;   /* whether another process may take it */
byte last_write = 0;        /* the number of the holder's last write */
bool is_stored = true;      /* whether a session is stored */
byte grant = 0;             /* its grant */
byte serial = 0;            /* the number of its refresh token */

/* The provider: the token of each grant that is valid now, whether the family was revoked, and which token's use is explained. */
byte valid[2];
bool is_revoked[2];
bool is_removed[2];
byte rotations = 0;
byte faults = 0;

/* Whether a process was killed, paused or cut off after its token was used and before the new one was written. */
bool is_explained[2];

/* A write whose connection was lost, and that the database executes later. */
bool is_late = false;
byte late_fence, late_number, late_grant, late_serial;

#define may_fail (faults < FAULTS)
#define fault faults++

proctype Process(byte me) {
  byte my_fence, my_grant, my_serial, new_serial, number;
  bool knows_expiry;    /* whether my own clock says that the lease is over */

end_take:
  atomic {
    (rotations < ROTATIONS && is_stored && !is_revoked[grant] && (!UNDER_LEASE || owner == NOBODY || has_expired)) ->
      fence++; my_fence = fence; owner = me; has_expired = false; knows_expiry = false; last_write = 0; number = 0
  }
read:
  if
  :: atomic {
       (!FENCED_READ || fence == my_fence) && is_stored -> my_grant = grant; my_serial = serial
     }
  :: atomic { FENCED_READ && fence != my_fence -> goto end_take }
  :: atomic { !is_stored && rotations < ROTATIONS -> goto end_take }
  :: atomic { rotations >= ROTATIONS -> goto done }
  fi;
send:
  if
  /* Killed: the lease stays until it expires, and the process starts again. */
  :: atomic { may_fail -> fault; if :: owner == me && fence == my_fence -> has_expired = true :: else fi; goto end_take }
  /* Paused for longer than the lease: its own clock says so when it goes on. */
  :: atomic { may_fail -> fault; if :: owner == me && fence == my_fence -> has_expired = true :: else fi; knows_expiry = true }
  :: skip
  fi;
  if
  :: CHECKED_SEND && knows_expiry -> goto end_take
  :: else
  fi;
  /* The provider's effect. */
  atomic {
    if
    :: is_revoked[my_grant] || rotations >= ROTATIONS -> goto release
    :: !is_revoked[my_grant] && my_serial == valid[my_grant] && rotations < ROTATIONS ->
         valid[my_grant]++; new_serial = valid[my_grant]; rotations++
    :: !is_revoked[my_grant] && my_serial != valid[my_grant] ->
         /* A refresh token is sent twice only within the documented window. */
         assert(is_explained[my_grant]);
         is_revoked[my_grant] = true;
         goto release
    fi
  }
respond:
  if
  :: atomic { may_fail -> fault; is_explained[my_grant] = true;    /* killed */
       if :: owner == me && fence == my_fence -> has_expired = true :: else fi; goto end_take }
  :: atomic { may_fail -> fault; is_explained[my_grant] = true; goto release }    /* cut off */
  :: atomic { may_fail -> fault; is_explained[my_grant] = true;    /* paused */
       if :: owner == me && fence == my_fence -> has_expired = true :: else fi }
  :: skip
  fi;
  number++;
write:
  if
  :: atomic { may_fail -> fault; goto write }    /* refused: tried again under the same lease */
  :: atomic {    /* its connection is lost: tried again, too */
       may_fail && !is_late -> fault;
       is_late = true; late_fence = my_fence; late_number = number; late_grant = my_grant; late_serial = new_serial;
       goto write
     }
  :: atomic {
       (!FENCED_WRITE || fence == my_fence) ->
         /* A lost lease overwrites nothing newer, and nothing that was removed comes back. The late write may have come first. */
         assert(!is_removed[my_grant]);
         assert(grant != my_grant || new_serial >= serial);
         is_stored = true; grant = my_grant; serial = new_serial; last_write = number
     }
  :: atomic { FENCED_WRITE && fence != my_fence -> goto end_take }
  fi;
  if
  :: goto read    /* another refresh under the same lease */
  :: skip
  fi;
release:
  atomic {
    if
    :: owner == me && fence == my_fence -> owner = NOBODY; has_expired = false
    :: else
    fi
  }
  goto end_take;
done:
  skip
}

/* The database, which executes a late write. */
proctype Database() {
end_database:
  atomic {
    is_late -> is_late = false;
    if
    :: (!FENCED_WRITE || fence == late_fence && owner != NOBODY) && (!NUMBERED_WRITE || last_write <= late_number) ->
         assert(!is_removed[late_grant]);
         assert(grant != late_grant || late_serial >= serial);
         is_stored = true; grant = late_grant; serial = late_serial; last_write = late_number
    :: else
    fi
  }
  goto end_database
}

/* A sign-out by another process, and then a sign-in: neither waits for the lease. */
proctype Users() {
end_users:
  atomic {
    may_fail -> fault;
    is_removed[grant] = true; is_stored = false; owner = NOBODY; has_expired = false; fence++
  }
  atomic {
    !is_stored -> grant = 1; serial = 0; is_stored = true
  }
}

/* When nothing can happen any more: what is stored is valid, unless a fault explains why it is not. */
active proctype Quiet() {
  timeout;
  assert(!is_stored || is_revoked[grant] || is_explained[grant] || serial == valid[grant]);
  assert(!is_revoked[grant] || is_explained[grant])
}

init {
  byte i;
  atomic {
    for (i : 1 .. PROCESSES) { run Process(i) }
    run Users();
    run Database()
  }
}
