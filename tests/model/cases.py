"""Which sizes of the models are checked, and which mutations in which size.

With the states that each was found to have; the tests accept no fewer than 9 in 10.
"""

from __future__ import annotations

from spin import Spin

Cases = dict[str, tuple[Spin, int]]


def case(file: str, defines: str, mutation: str = "") -> Spin:
    """Of "NAME=VALUE NAME ..."."""
    pairs = (word.partition("=") for word in defines.split())
    return Spin(file, tuple((name, int(value or 1)) for name, _, value in pairs), mutation)


def cases(file: str, table: str) -> Cases:
    """Of lines "name: defines: states"."""
    found = {}
    for line in table.strip().splitlines():
        name, defines, states = (part.strip() for part in line.split(":"))
        found[name] = (case(file, defines), int(states.replace(",", "")))
    return found


def mutants(file: str, table: str) -> list[Spin]:
    """Of lines "defines: mutation mutation ..."."""
    found = []
    for line in table.strip().splitlines():
        defines, names = line.split(":")
        found += [case(file, defines, name) for name in names.split()]
    return found


# Seconds each, with the compiler.
SMALL: Cases = {
    **cases(
        "sleep.pml",
        """
        sleep, jobs: JOBS=2: 874_275
        sleep, jobs, rollover: JOBS=2 ROLLOVER=2: 870_671
        sleep, mail: POSTERS=0 MAIL=2 END: 5_810
        sleep, jobs, mail: MAIL=1: 1_460_993
        sleep, forks: POSTERS=0 FORKS=2 END: 1_056_599
        sleep, forks, rollover: POSTERS=0 FORKS=2 ROLLOVER=2: 300_867
        sleep, tasks: TASKS=1: 34_689
        sleep, end: END: 7_041
        sleep, three workers: WORKERS=3 END: 23_474
        sleep, refused: JOBS=2 MAIL=1 REFUSED=1: 1_104_594
        sleep, refused, end: MAIL=1 REFUSED=1 END: 79_183
        sleep, all refused: WORKERS=1 POSTERS=2 JOBS=2 REFUSED=1: 14_432
        sleep, retires: RETIRE END: 10_679
        sleep, one retires: WORKERS=1 JOBS=2 RETIRE END: 7_345
        sleep, one retires, 2 posters: WORKERS=1 POSTERS=2 RETIRE END: 29_021
        sleep, places: JOBS=2 PLACES: 1_407_522
        sleep, places, one retires: WORKERS=1 POSTERS=2 RETIRE END PLACES: 36_678
        sleep, revived: WORKERS=1 POSTERS=2 REFUSED=1 REVIVES=2: 162_829
        sleep, revived, 2 workers: REFUSED=2 REVIVES=1: 44_118
        sleep, revived, mail: WORKERS=1 REFUSED=1 REVIVES=1 MAIL=2: 293_524
        """,
    ),
    **cases(
        "deque.pml",
        """
        joins: JOBS=3 JOINS: 243_157
        joins, growth: JOBS=1 PUSHES=1 JOINS CAP=1: 203_997
        joins, growth and reuse: JOBS=1 PUSHES=2 JOINS CAP=1: 2_847_760
        joins, no membarrier: JOBS=2 PUSHES=1 JOINS CAP=1 NO_MEMBARRIER: 128_388
        pops: JOBS=3: 136_183
        pops, growth: JOBS=1 PUSHES=1 CAP=1: 267_379
        pops, no membarrier, grows twice: JOBS=1 PUSHES=2 CAP=1 RINGS=3 NO_MEMBARRIER: 255_545
        """,
    ),
    **cases(
        "life.pml",
        """
        pool: INJECTORS=1 GUESTS=1: 27_397
        pool, may refuse: INJECTORS=2 REFUSE=1: 49_268
        pool, all refused: INJECTORS=2 GUESTS=1 REFUSE=2: 489_693
        pool, retire: INJECTORS=1 GUESTS=1 RETIRE REFUSE=1: 76_455
        pool, lanes and mail: KEYED=1 MAILERS=1 REFUSE=1 RETIRE: 93_852
        global: GLOBAL GUESTS=1 RESIZERS=1: 379_096
        global, inside: GLOBAL RESIZERS=2 INSIDE: 227_927
        """,
    ),
    **cases(
        "waits.pml",
        """
        waits, joins: JOINS BACKGROUND=1: 59_809
        waits, mail: MAIL: 150_023
        waits, nested mail: NESTED: 35_976
        waits, crowd of mail: CROWD: 19_483
        waits, mail and its tasks: TAIL: 72_475
        waits, levels sink: SINKS: 177_043
        waits, tasks: TASKS BACKGROUND=1: 112_502
        waits, put away: PUT_AWAY: 12_946
        waits, on top: ON_TOP: 516_762
        waits, twice: TWICE: 635_352
        waits, under: UNDER: 3_844
        """,
    ),
    **cases(
        "lane.pml",
        """
        lane: JOBS=2: 51_628
        lane, refused: REFUSED=1: 323_225
        lane, all refused: REFUSED=2: 8_806
        lane, revived: REFUSED=1 JOBS=1 REVIVE: 199_709
        lane, replaced: JOBS=2 REPLACED: 603_598
        """,
    ),
    **cases(
        "parker.pml",
        """
        parker: MESSAGES=2: 9_831
        parker, 3 senders: SENDERS=3 SIGNALS=3: 199_981
        """,
    ),
    **cases(
        "here.pml",
        """
        here: TREE: 6_341
        here, waits: WAIT: 73_587
        here, lane: LANE: 8_498
        """,
    ),
    **cases(
        "scan.pml",
        """
        scan: BLOCKS=4: 273_437
        scan, in place: IN_PLACE: 133_717
        scan, integers: INTEGERS: 830_074
        scan, integers, in place: IN_PLACE INTEGERS: 437_433
        scan, stopped: IN_PLACE INTEGERS FLAGS: 791_451
        """,
    ),
    **cases(
        "member.pml",
        """
        member: WORKERS=2 PUTS=3: 43_061
        member, crowded: CROWDED: 605_044
        """,
    ),
    **cases(
        "tasks.pml",
        """
        tasks, alone: BACKGROUND=0: 594
        tasks, itself: BACKGROUND=0 SELF: 594
        tasks, 2 workers: BACKGROUND=2: 110_552
        tasks, asked: ASKERS=1: 291_769
        tasks, asked, alone: BACKGROUND=0 ASKERS=2: 311_412
        tasks, fail: ASKERS=1 FAIL: 1_026_761
        tasks, stop: ASKERS=1 STOP: 499_703
        tasks, cancelled: CANCEL ASKERS=1: 871_819
        """,
    ),
    **cases(
        "futures.pml",
        """
        futures, held: HELD: 513_612
        futures, nested: NESTED: 127_796
        futures, parts: PARTS: 19_411
        futures, claims: CLAIMS: 966
        futures, callers: CALLERS: 28_517
        futures, spawns: SPAWNS BACKGROUND=3: 16_314
        futures, letters: LETTERS: 118_828
        """,
    ),
    **cases(
        "guests.pml",
        """
        guests: GUESTS=2: 28_519
        guests, 2 places: GUESTS=2 SLOTS=2: 21_835
        """,
    ),
}
# Minutes, and up to 4 GB.
FULL: Cases = {
    **cases(
        "sleep.pml",
        """
        sleep, three workers, 2 jobs: WORKERS=3 JOBS=2: 47_894_064
        sleep, three workers, forks: WORKERS=3 POSTERS=0 FORKS=2: 3_177_152
        sleep, three workers, refused: WORKERS=3 JOBS=2 REFUSED=1: 9_696_376
        sleep, three workers, refused, mail: WORKERS=3 MAIL=1 REFUSED=1: 1_039_491
        sleep, 4 jobs: JOBS=4: 9_830_899
        sleep, jobs, end: JOBS=3 END ROLLOVER=4: 6_647_787
        sleep, two posters: POSTERS=2 END: 4_627_516
        sleep, 2 jobs, mail: JOBS=2 MAIL=1: 39_504_997
        sleep, jobs, mail, rollover: JOBS=2 MAIL=1 ROLLOVER=2: 39_981_840
        sleep, job, 2 mails: MAIL=2: 12_926_210
        sleep, job, fork: FORKS=1 END: 4_265_402
        sleep, job, 2 forks: FORKS=2: 74_056_180
        sleep, job, 2 forks, rollover: FORKS=2 ROLLOVER=2: 74_472_732
        sleep, 3 forks: POSTERS=0 FORKS=3 END: 3_753_373
        sleep, forks, mail: POSTERS=0 FORKS=2 MAIL=1: 20_799_350
        sleep, 3 jobs, task: JOBS=3 TASKS=1: 15_824_762
        sleep, 2 tasks: JOBS=2 TASKS=2: 7_629_537
        sleep, task, fork: TASKS=1 FORKS=1: 14_720_834
        sleep, 3 jobs, retire: JOBS=3 RETIRE: 6_475_873
        sleep, retires, 2 posters: POSTERS=2 RETIRE END: 11_070_457
        sleep, retires, mail: MAIL=1 RETIRE END: 6_087_808
        sleep, retires, forks: POSTERS=0 FORKS=3 RETIRE END: 7_703_441
        sleep, one retires, 2 jobs each: WORKERS=1 POSTERS=2 JOBS=2 RETIRE END: 374_482
        sleep, places, mail: MAIL=1 END PLACES: 4_288_382
        sleep, places, fork: FORKS=1 PLACES: 3_263_328
        sleep, places, refused: JOBS=2 REFUSED=1 PLACES: 26_787
        sleep, revived, 2 jobs: REFUSED=1 REVIVES=1 JOBS=2: 1_942_631
        sleep, revived, mail, 2 workers: REFUSED=1 REVIVES=1 MAIL=1: 12_569_781
        sleep, revived, all and mail: REFUSED=2 REVIVES=1 MAIL=1: 1
        sleep, revived twice, 2 jobs: WORKERS=1 POSTERS=2 JOBS=2 REFUSED=1 REVIVES=2: 4_412_314
        sleep, revived, retires: WORKERS=1 POSTERS=2 REFUSED=1 REVIVES=2 RETIRE: 316_358
        sleep, revived, three workers: WORKERS=3 REFUSED=2 REVIVES=1: 2_023_487
        """,
    ),
    **cases(
        "deque.pml",
        """
        joins, 5: JOBS=5 JOINS CAP=4: 1_530_621
        joins, grows twice: JOBS=1 PUSHES=3 JOINS CAP=1 RINGS=3: 29_304_659
        joins, 2 pushes: JOBS=2 PUSHES=2 JOINS CAP=1: 4_417_137
        joins, from empty: JOBS=0 PUSHES=3 JOINS CAP=1: 2_319_091
        joins, long buffer: JOBS=1 PUSHES=2 JOINS CAP=1 BUFFER=16: 2_316_585
        joins, 3 thieves: JOBS=2 PUSHES=1 THIEVES=3 JOINS CAP=1: 15_178_319
        joins, 3 thieves, growth: JOBS=1 PUSHES=1 THIEVES=3 JOINS CAP=1: 2_739_562
        joins, 4 thieves: JOBS=2 THIEVES=4 JOINS: 10_521_191
        joins, no membarrier, 3: JOBS=1 PUSHES=2 THIEVES=3 JOINS CAP=1 NO_MEMBARRIER: 9_344_222
        pops, 5: JOBS=5 CAP=4: 311_393
        pops, 2 pushes: JOBS=2 PUSHES=2 CAP=2: 4_561_729
        pops, from empty: JOBS=0 PUSHES=3 CAP=1: 1_432_973
        pops, grows twice: JOBS=1 PUSHES=3 CAP=1 RINGS=3: 10_616_350
        pops, long buffer: JOBS=1 PUSHES=2 CAP=1 RINGS=3 BUFFER=16: 2_860_479
        pops, 3 thieves: JOBS=1 PUSHES=2 THIEVES=3 CAP=1: 26_069_121
        pops, no membarrier, 3: JOBS=1 PUSHES=3 THIEVES=3 CAP=1 NO_MEMBARRIER: 15_382_387
        """,
    ),
    **cases(
        "life.pml",
        """
        pool, 3 jobs: INJECTORS=3: 1_898_620
        pool, 2 workers: INJECTORS=2 WORKERS=2 REFUSE=1 RETIRE: 10_194_797
        pool, 2 workers refused: INJECTORS=2 GUESTS=1 WORKERS=2 REFUSE=2: 16_012_573
        pool, mail: INJECTORS=1 GUESTS=1 MAILERS=1 REFUSE=1 RETIRE: 3_217_948
        pool, all kinds: INJECTORS=1 KEYED=1 MAILERS=1 REFUSE=1 RETIRE: 5_408_013
        pool, 2 lanes: KEYED=2 MAILERS=1 REFUSE=1: 3_581_238
        pool, lanes, 2 workers: KEYED=1 MAILERS=1 WORKERS=2 REFUSE=1 RETIRE: 2_805_809
        global, 2 guests: GLOBAL GUESTS=2 RESIZERS=1: 34_917_719
        global, 2 resizers: GLOBAL GUESTS=1 RESIZERS=2 LOCALS: 8_028_132
        global, locals: GLOBAL INJECTORS=1 RESIZERS=1 LOCALS: 607_699
        global, inside, locals: GLOBAL INJECTORS=1 RESIZERS=2 INSIDE LOCALS: 45_220_240
        global, 2 jobs: GLOBAL INJECTORS=2 REFUSE=1: 567_851
        global, job and lane: GLOBAL INJECTORS=1 KEYED=1 REFUSE=1: 488_469
        global, refused: GLOBAL INJECTORS=1 RESIZERS=1 REFUSE=1 LOCALS: 701_127
        global, lane: GLOBAL KEYED=1 RESIZERS=1 REFUSE=1: 576_634
        global, 2 workers: GLOBAL GUESTS=1 RESIZERS=1 WORKERS=2: 679_456
        """,
    ),
    **cases(
        "waits.pml",
        """
        waits, joins, 2 workers: JOINS: 2_524_389
        waits, tasks, 2 workers: TASKS: 2_794_163
        waits, mail, 3 workers: MAIL BACKGROUND=3: 6_683_544
        waits, nested mail, 3 workers: NESTED BACKGROUND=3: 1
        waits, crowd of mail, 3 workers: CROWD BACKGROUND=3: 1
        waits, mail and its tasks, 3 workers: TAIL BACKGROUND=3: 1
        waits, levels sink, 3 workers: SINKS BACKGROUND=3: 3_488_580
        waits, put away, 3 workers: PUT_AWAY BACKGROUND=3: 67_535
        waits, under, 3 workers: UNDER BACKGROUND=3: 17_776
        waits, on top, 3 workers: ON_TOP BACKGROUND=3: 12_118_535
        waits, twice, 3 workers: TWICE BACKGROUND=3: 5_407_431
        """,
    ),
    **cases(
        "lane.pml",
        """
        lane, revived, 2 jobs: REFUSED=1 REVIVE: 1_916_354
        lane, replaced, turns of 2: TURN=2 REPLACED: 574_023
        """,
    ),
    **cases(
        "here.pml",
        """
        here, 3 threads: TREE THREADS=3: 1_132_392
        here, lane, 3 threads: LANE THREADS=3: 5_921_807
        """,
    ),
    **cases("tasks.pml", "tasks, fail and stop: ASKERS=1 FAIL STOP: 1_627_243"),
    **cases(
        "futures.pml",
        """
        futures, held, 3 workers: HELD BACKGROUND=3: 29_537_755
        futures, nested, 3 workers: NESTED BACKGROUND=3: 8_653_446
        futures, parts, 3 workers: PARTS BACKGROUND=3: 225_878
        futures, claims, 3 workers: CLAIMS BACKGROUND=3: 1_756
        futures, callers, 3 workers: CALLERS BACKGROUND=3: 315_378
        futures, letters, 3 workers: LETTERS BACKGROUND=3: 1_610_489
        """,
    ),
    **cases(
        "guests.pml",
        """
        guests, 3: GUESTS=3: 6_489_792
        guests, 3, 2 places: GUESTS=3 SLOTS=2: 3_164_513
        """,
    ),
}
# Each must break.  (late_push is not guaranteed, as sleep.pml says: a push that its pusher does
# not wait for has no fence; nor are fork_asks, inner_asks and crossed, as futures.pml says.)
MUTANTS = [
    *mutants(
        "sleep.pml",
        """
        JOBS=2: no_fence_1 no_fence_found no_wait_claimed
        JOBS=2: no_pass_on no_last_searcher
        MAIL=1: no_fence_mail mail_no_claim mail_no_token
        JOBS=3: no_fence_moved last_without_inbox no_post_moved
        WORKERS=1 JOBS=2: no_fence_2
        WORKERS=1 JOBS=2 RETIRE: no_fence_retire retire_no_look
        END: no_fence_end last_without_end end_no_duty
        MAIL=1 REFUSED=1: no_fence_refused no_fence_return refused_no_look
        MAIL=1 REFUSED=1: refused_no_return mail_no_return
        WORKERS=1 FORKS=1: announce_odd last_without_jec never_jec
        POSTERS=0 MAIL=2: last_without_mail
        JOBS=1: sleeper_uncounts
        WORKERS=1 REFUSED=1: no_orphans
        POSTERS=2 REFUSED=1: refused_ends
        POSTERS=2 JOBS=2 REFUSED=1: refused_once
        WORKERS=1 POSTERS=2 REFUSED=1 REVIVES=2: revive_uncounted revive_stays_dead
        WORKERS=1 POSTERS=2 REFUSED=1 REVIVES=2: revive_no_orphans revive_by_store
        WORKERS=1 POSTERS=2 JOBS=2 RETIRE: retire_unjoinable joinable_stays
        JOBS=2 PLACES: place_late place_kept place_note_late
        WORKERS=1 POSTERS=2 RETIRE PLACES: place_unlooked
        POSTERS=0 FORKS=2: late_push
        """,
    ),
    *mutants(
        "deque.pml",
        """
        JOBS=1 PUSHES=2 JOINS CAP=1: no_fence_when_fenced no_fence_when_revoking bias_before_bottom
        JOBS=1 PUSHES=2 JOINS CAP=1: rebias_without_fence rebias_when_revoking last_without_cas
        JOBS=1 PUSHES=2 JOINS CAP=1: no_membarrier revoke_by_store go_on_when_revoking
        JOBS=1 PUSHES=2 JOINS CAP=1: bias_before_top bottom_before_top bottom_before_bias
        JOBS=1 PUSHES=2 JOINS CAP=1: ring_before_bottom bottom_before_cell bottom_below_top
        JOBS=1 PUSHES=2 JOINS CAP=1: cell_after_cas ring_before_copies old_ring_reused
        JOBS=1 PUSHES=2 JOINS CAP=1: copies_too_few full_from_bottom one_too_many
        JOBS=1 PUSHES=2 JOINS CAP=1: refused_is_fenced refused_stays
        JOBS=4 CAP=4: acknowledges_revoking
        """,
    ),
    *mutants(
        "life.pml",
        """
        GLOBAL GUESTS=1 RESIZERS=1: no_entering borrow_uncounted borrow_uncounts quiet_first
        GLOBAL GUESTS=1: reap_frees_exit exit_late
        GLOBAL RESIZERS=2 INSIDE: reap_waits exit_locked
        GLOBAL GUESTS=1 RESIZERS=1 LOCALS: reap_locked
        GLOBAL INJECTORS=2: make_global_store
        INJECTORS=1 GUESTS=1: no_closed_check gone_early gone_never gone_retire_only gone_no_wake
        INJECTORS=1 GUESTS=1: no_end join_not_quiet
        INJECTORS=2 WORKERS=2: no_share_inside
        KEYED=1: lane_no_share
        INJECTORS=2 REFUSE=1: refused_not_dead no_orphans dead_before_push
        INJECTORS=2 WORKERS=2 REFUSE=1: refused_inactive
        INJECTORS=2 GUESTS=1 WORKERS=2 REFUSE=1: refused_no_look
        INJECTORS=1 MAILERS=1 REFUSE=1: refused_no_mail poster_no_mail
        INJECTORS=1 GUESTS=1 RETIRE: restart_no_join retired_not_joined retire_uncounted
        INJECTORS=1 GUESTS=1 RETIRE: retire_no_look retire_late refused_counts
        KEYED=1 MAILERS=1 REFUSE=1: lane_forgets
        """,
    ),
    *mutants(
        "waits.pml",
        """
        JOINS: wait_anything wait_no_tag set_ignores_duty sleep_unannounced
        MAIL: wait_no_mail mail_no_token mail_no_claim
        PUT_AWAY: scope_any put_away_no_token end_no_put_away
        ON_TOP: keeps_tasks kept_not_restored
        TWICE: kept_stays
        UNDER: tasks_under
        CROWD: any_level same_level
        NESTED: level_of_root scopes_flat shallow_stays
        TAIL: tail_sinks
        SINKS BACKGROUND=3: deeper_under
        """,
    ),
    *mutants(
        "lane.pml",
        """
        JOBS=2: push_torn take_torn idle_by_store newest_first rest_last always_schedules turn_ends
        REPLACED: pool_after pool_late no_share
        REFUSED=1: refused_keeps poster_keeps returns_twice
        REFUSED=2: no_orphans
        """,
    ),
    *mutants(
        "parker.pml",
        """
        MESSAGES=1: park_by_store wait_unchecked timeout_store timeout_parked token_stays
        MESSAGES=1: no_wake only_parked unpark_torn signal_ends
        """,
    ),
    *mutants(
        "here.pml",
        """
        TREE THREADS=1: nests newest_first queue_left runs_for_ever slot_stays
        TREE: slot_torn
        WAIT: innermost_only waits_only block_by_store block_not_found
        LANE: lane_torn
        """,
    ),
    *mutants(
        "scan.pml",
        """
        BLOCKS=3: total_after_state last_after_state total_at_once ticket_torn last_twice
        BLOCKS=3 IN_PLACE: by_position scan_before_total recompute_in_place
        BLOCKS=3 INTEGERS: total_of_last shortcut_state_first shortcut_unchecked
        BLOCKS=3 IN_PLACE FLAGS: stop_with_ticket no_wait
        """,
    ),
    *mutants(
        "member.pml",
        """
        WORKERS=2: put_torn lost_is_put lost_goes_on bit_torn no_join
        WORKERS=2 CROWDED: silent
        """,
    ),
    *mutants(
        "tasks.pml",
        """
        BACKGROUND=1: claim_torn take_torn hand_first hand_store claim_done_torn hand_no_give
        BACKGROUND=1: spawn_uncounted end_no_wait helps
        BACKGROUND=0: popped_forgotten result_waits
        BACKGROUND=0 SELF: waits_for_self
        ASKERS=1: no_hand_over
        ASKERS=1 STOP: no_drop_rest drop_no_wait drop_waits_for_future
        BACKGROUND=0 FAIL: drop_ends_nothing
        BACKGROUND=0 CANCEL: cancelled_runs
        """,
    ),
    *mutants(
        "futures.pml",
        """
        HELD: no_least_level wait_no_mail level_of_root scopes_flat
        LETTERS: no_least_level same_level letters_too
        PARTS: no_broadcasts future_no_mail waits_for_self result_waits
        CALLERS: broadcasts_always
        CLAIMS: claim_sinks
        PARTS: fork_asks inner_asks crossed
        SPAWNS BACKGROUND=3: spawn_sinks
        """,
    ),
    *mutants(
        "guests.pml",
        """
        GUESTS=2: take_torn block_by_store keeps_own ends_at_empty stays_taken
        GUESTS=2 SLOTS=2: leave_torn
        """,
    ),
]
# Each must hold: the model says why.
HARMLESS = [
    *mutants("sleep.pml", "WORKERS=1 FORKS=2: add_without_jec"),
    *mutants(
        "deque.pml",
        "JOBS=1 PUSHES=1 JOINS CAP=1: thief_without_fence top_before_bias refused_no_fence",
    ),
    *mutants(
        "life.pml",
        """
        INJECTORS=1 GUESTS=1: end_at_once
        INJECTORS=1 GUESTS=1 RETIRE: retire_no_end
        GLOBAL GUESTS=1 RESIZERS=1: reap_users_first retire_first
        """,
    ),
    *mutants(
        "waits.pml",
        """
        MAIL: look_no_mail
        PUT_AWAY: look_no_put_away
        """,
    ),
    *mutants("scan.pml", "BLOCKS=3 IN_PLACE: wait_for_last never_last"),
    *mutants(
        "futures.pml",
        """
        HELD: least_stays
        LETTERS: least_stays
        """,
    ),
]
