//! The table of routes: every fact about a call of the public API, once.
//!
//! A row is: variant of [`Route`](super::route::Route) with its parameters, method, template, name in metrics, the
//! required right, the treatment of unknown query parameters where they are not refused, and the function that answers
//! it. [`route_table`] passes the rows to a macro: [`super`] makes the types and the search, `edge` the dispatch.
//!
//! The rows of a feature are one group, which exists only in builds with that feature.
//!
//! A parameter in braces is a segment or the beginning of one; `{/file}` is the rest of the path, if there is any. The
//! methods of one template are in the order of the `Allow` header.

/// Passes the table to a macro. Who names it has the features of this crate too.
#[macro_export]
macro_rules! route_table {
    ($generate:ident) => {
        $generate! { (context, caller)
            #[cfg(all())] {
                Increment(id: CounterId) "POST" "/counters/{id}/increment" "increment"
                    Right::Counter(Scope::Write, id.as_str()) => write::increment(context, &caller, id).await;
                Decrement(id: CounterId) "POST" "/counters/{id}/decrement" "decrement"
                    Right::Write(id.as_str(), Permission::Decrement) => write::decrement(context, &caller, id).await;
                Read(id: CounterId) "GET" "/counters/{id}" "read"
                    Right::Counter(Scope::Read, id.as_str()) => counter_of(context, id).await;
                Put(id: CounterId) "PUT" "/counters/{id}" "put"
                    Right::Counter(Scope::Admin, id.as_str()) => administration::put(context, &caller, id).await;
                Delete(id: CounterId) "DELETE" "/counters/{id}" "delete"
                    Right::Counter(Scope::Admin, id.as_str()) => administration::delete(context, &caller, id).await;
                Set(id: CounterId) "PUT" "/counters/{id}/value" "set"
                    Right::Counter(Scope::Admin, id.as_str()) => administration::set(context, &caller, id).await;
                PrefixHistory(prefix: String) "GET" "/counters/{prefix}*/aggregate/history" "prefix_history"
                    Right::Counter(Scope::Read, prefix) => aggregate::history(context, prefix).await;
                History(id: CounterId) "GET" "/counters/{id}/history" "history"
                    Right::Counter(Scope::Read, id.as_str()) => history::history(context, id).await;
                PrefixBreakdown(prefix: String) "GET" "/counters/{prefix}*/aggregate/breakdown" "prefix_breakdown"
                    Right::Counter(Scope::Read, prefix) => aggregate::breakdown(context, prefix).await;
                Breakdown(id: CounterId) "GET" "/counters/{id}/breakdown" "breakdown"
                    Right::Counter(Scope::Read, id.as_str()) => breakdown::breakdown(context, id).await;
                List "GET" "/counters" "list"
                    Right::Named(Scope::Read) => list_of(context, &caller).await;
                Top "GET" "/top" "top"
                    Right::Named(Scope::Read) => top_of(context, &caller).await;
                Aggregate(prefix: String) "GET" "/counters/{prefix}*/aggregate" "aggregate"
                    Right::Counter(Scope::Read, prefix) => aggregate::aggregate(context, prefix).await;
                Uniques "GET" "/uniques" "uniques"
                    Right::Named(Scope::Read) => uniques_of(context, &caller).await;
                Rotate "POST" "/uniques/rotate" "uniques_rotate"
                    Right::Counter(Scope::Admin, "") => uniques::rotate(context).await;
                Snapshots "GET" "/snapshots" "snapshots"
                    Right::Counter(Scope::Admin, "") => snapshots::list(context).await;
                MakeSnapshot "POST" "/snapshots" "snapshot_make"
                    Right::Counter(Scope::Admin, "") => snapshots::make(context).await;
                Restore(date: String) "POST" "/snapshots/{date}/restore" "snapshot_restore"
                    Right::Named(Scope::Admin) => restore::restore(context, &caller, &date).await;
                Repair "POST" "/repair" "repair"
                    Right::Counter(Scope::Admin, "") => repair::repair(context).await;
                Events "POST" "/events" "events"
                    Right::Somewhere(Scope::Write, &[]) => bulk::events(context, &caller).await;
                ListShares "GET" "/shares" "shares"
                    Right::Named(Scope::Admin) => shares::list(context, &caller).await;
                CreateShare "POST" "/shares" "share_create"
                    Right::Named(Scope::Admin) => shares::create(context, &caller).await;
                RevokeShare(id: ShareId) "DELETE" "/shares/{id}" "share_revoke"
                    Right::Named(Scope::Admin) => shares::revoke(context, &caller, id).await;
                ListKeys "GET" "/keys" "keys"
                    Right::Named(Scope::Admin) => api_keys::list(context, &caller).await;
                MakeKey "POST" "/keys" "key_make"
                    Right::Named(Scope::Admin) => api_keys::make(context, &caller).await;
                GetKey(id: KeyId) "GET" "/keys/{id}" "key"
                    Right::Named(Scope::Admin) => api_keys::get(context, &caller, id).await;
                ChangeKey(id: KeyId) "PATCH" "/keys/{id}" "key_change"
                    Right::Named(Scope::Admin) => api_keys::change(context, &caller, id).await;
                RevokeKey(id: KeyId) "DELETE" "/keys/{id}" "key_revoke"
                    Right::Named(Scope::Admin) => api_keys::revoke(context, &caller, id).await;
                RotateKey(id: KeyId) "POST" "/keys/{id}/rotate" "key_rotate"
                    Right::Named(Scope::Admin) => api_keys::rotate(context, &caller, id).await;
                // The entries are about all counters, so a key for a prefix is not enough.
                Audit "GET" "/audit" "audit"
                    Right::Counter(Scope::Admin, "") => audit::list(context).await;
                ListAlerts "GET" "/alerts" "alerts"
                    Right::Named(Scope::Admin) => alerts::list(context, &caller).await;
                GetAlert(alert: AlertName) "GET" "/alerts/{alert}" "alert_get"
                    Right::Named(Scope::Admin) => alerts::get(context, &caller, alert).await;
                PutAlert(alert: AlertName) "PUT" "/alerts/{alert}" "alert_put"
                    Right::Named(Scope::Admin) => alerts::put(context, &caller, alert).await;
                DeleteAlert(alert: AlertName) "DELETE" "/alerts/{alert}" "alert_delete"
                    Right::Named(Scope::Admin) => alerts::delete(context, &caller, alert).await;
                Deliveries(alerts: AlertNames) "GET" "/alerts/{alert}/deliveries" "alert_deliveries"
                    Right::Named(Scope::Admin) => alerts::deliveries(context, &caller, alerts).await;
                SilenceAlert(alert: AlertName) "POST" "/alerts/{alert}/silence" "alert_silence"
                    Right::Named(Scope::Admin) => alerts::silence(context, &caller, alert).await;
                TestAlert(alert: AlertName) "POST" "/alerts/{alert}/test" "alert_test"
                    Right::Named(Scope::Admin) => alerts::test(context, &caller, alert).await;
                Index "GET" "/" "index"
                    Right::Everybody, UnknownQuery::Ignored => Ok(files::index(context));
                // The numbers are of all counters, so a key for a prefix is not enough.
                Metrics "GET" "/metrics" "metrics"
                    Right::Counter(Scope::Admin, ""), UnknownQuery::Ignored => Ok(metrics::metrics(context).await);
                Health "GET" "/healthz" "healthz"
                    Right::Everybody, UnknownQuery::Ignored => health::health(context).await;
                ProblemPage(code: String) "GET" "/problems/{code}" "problem"
                    Right::Everybody, UnknownQuery::Ignored => files::problem(context, &code);
                OpenApi "GET" "/openapi.json" "openapi"
                    Right::Everybody, UnknownQuery::Ignored => files::openapi(&context.host);
            }
            #[cfg(feature = "samples")] {
                Distribution(id: CounterId) "GET" "/counters/{id}/distribution" "distribution"
                    Right::Counter(Scope::Read, id.as_str()) => distribution::distribution(context, id).await;
            }
            #[cfg(feature = "boards")] {
                Boards "GET" "/boards" "boards"
                    Right::Named(Scope::Read) => boards::list(context, &caller).await;
                AboutBoard(board: CounterId) "GET" "/boards/{board}" "board"
                    Right::Counter(Scope::Read, board.as_str()) => boards::about(context, board).await;
                PutBoard(board: CounterId) "PUT" "/boards/{board}" "board_put"
                    Right::Counter(Scope::Admin, board.as_str()) => boards::put(context, board).await;
                DeleteBoard(board: CounterId) "DELETE" "/boards/{board}" "board_delete"
                    Right::Counter(Scope::Admin, board.as_str()) => boards::delete(context, board).await;
                Members(board: CounterId) "GET" "/boards/{board}/members" "members"
                    Right::Counter(Scope::Read, board.as_str()) => boards::members(context, board).await;
                WriteMembers(board: CounterId) "POST" "/boards/{board}/members" "members_write"
                    Right::Write(board.as_str(), Permission::Board) =>
                        scores::write_many(context, &caller, board).await;
                Member(board: CounterId, member: CounterId) "GET" "/boards/{board}/members/{member}" "member"
                    Right::Counter(Scope::Read, board.as_str()) => boards::member(context, board, member).await;
                WriteMember(board: CounterId, member: CounterId) "POST" "/boards/{board}/members/{member}"
                    "member_write"
                    Right::Write(board.as_str(), Permission::Board) =>
                        scores::write(context, &caller, board, member).await;
                RemoveMember(board: CounterId, member: CounterId) "DELETE" "/boards/{board}/members/{member}"
                    "member_remove"
                    Right::Counter(Scope::Admin, board.as_str()) => scores::remove(context, board, member).await;
            }
            #[cfg(feature = "exports")] {
                Export "GET" "/export" "export"
                    Right::Named(Scope::Admin) => export::export(context, &caller).await;
                Import "POST" "/import" "import"
                    Right::Counter(Scope::Admin, "") => import::import(context, &caller).await;
            }
            #[cfg(feature = "ingest")] {
                Ingest "POST" "/ingest" "ingest"
                    Right::Somewhere(Scope::Write, &[Permission::Ingest]),
                    UnknownQuery::IgnoredWhere("format", "logpush") => bulk::ingest(context, &caller).await;
            }
            #[cfg(feature = "limits")] {
                ListPolicies "GET" "/limits" "limit_policies"
                    Right::Named(Scope::Read) => limits::list_policies(context, &caller).await;
                CheckMany "POST" "/limits" "limit_checks"
                    Right::Named(Scope::Write) => limit_checks::check_many(context, &caller).await;
                GetPolicy(policy: PolicyName) "GET" "/limits/{policy}" "limit_policy_get"
                    Right::Limit(Scope::Read, policy, None) => limits::get_policy(context, policy).await;
                PutPolicy(policy: PolicyName) "PUT" "/limits/{policy}" "limit_policy_put"
                    Right::Limit(Scope::Admin, policy, None) => limits::put_policy(context, &caller, policy).await;
                DeletePolicy(policy: PolicyName) "DELETE" "/limits/{policy}" "limit_policy_delete"
                    Right::Limit(Scope::Admin, policy, None) => limits::delete_policy(context, policy).await;
                // Before the routes of a key, so that no key's route is read as the list.
                ListOverrides(policy: PolicyName) "GET" "/limits/{policy}/overrides" "limit_overrides"
                    Right::Limit(Scope::Read, policy, None) => overrides::list(context, policy).await;
                GetOverride(policy: PolicyName, pattern: OverridePattern) "GET" "/limits/{policy}/overrides/{pattern}"
                    "limit_override_get"
                    Right::Limit(Scope::Read, policy, None) => overrides::get(context, policy, pattern).await;
                PutOverride(policy: PolicyName, pattern: OverridePattern) "PUT" "/limits/{policy}/overrides/{pattern}"
                    "limit_override_put"
                    Right::Limit(Scope::Admin, policy, None) =>
                        overrides::put(context, &caller, policy, pattern).await;
                DeleteOverride(policy: PolicyName, pattern: OverridePattern) "DELETE"
                    "/limits/{policy}/overrides/{pattern}" "limit_override_delete"
                    Right::Limit(Scope::Admin, policy, None) => overrides::delete(context, policy, pattern).await;
                Peek(policy: PolicyName, key: CounterId) "GET" "/limits/{policy}/{key}" "limit_peek"
                    Right::Limit(Scope::Read, policy, Some(key)) => limits::peek(context, policy, key).await;
                Check(policy: PolicyName, key: CounterId) "POST" "/limits/{policy}/{key}" "limit_check"
                    Right::Named(Scope::Write) => limits::check(context, &caller, policy, key).await;
                Forget(policy: PolicyName, key: CounterId) "DELETE" "/limits/{policy}/{key}" "limit_forget"
                    Right::Limit(Scope::Admin, policy, Some(key)) => limits::forget(context, policy, key).await;
                Refund(policy: PolicyName, key: CounterId) "POST" "/limits/{policy}/{key}/refund" "limit_refund"
                    Right::Limit(Scope::Refund, policy, Some(key)) =>
                        limits::refund(context, &caller, policy, key).await;
                // Any method is read as GET, because a proxy may send the client's.
                Gate(policies: String) "GET" "/gate/{policies}" "gate"
                    Right::Named(Scope::Write), UnknownQuery::Ignored =>
                        gate::gate(context, &caller, &policies).await;
                Hold(policy: PolicyName, key: CounterId) "POST" "/limits/{policy}/{key}/holds" "limit_hold"
                    Right::Named(Scope::Write) => holds::hold(context, &caller, policy, key).await;
                Settle(policy: PolicyName, key: CounterId, hold: HoldId) "POST"
                    "/limits/{policy}/{key}/holds/{hold}/settle"
                    "limit_settle"
                    Right::Limit(Scope::Write, policy, Some(key)) =>
                        holds::settle(context, &caller, policy, key, hold).await;
                Release(policy: PolicyName, key: CounterId, hold: HoldId) "DELETE" "/limits/{policy}/{key}/holds/{hold}"
                    "limit_release"
                    Right::Limit(Scope::Write, policy, Some(key)) =>
                        holds::release(context, &caller, policy, key, hold).await;
            }
            #[cfg(feature = "live")] {
                // Answered by a stream, before routing.
                Live "GET" "/live" "live"
                    Right::Named(Scope::Read) => Ok(Answer::text(String::new()));
            }
            #[cfg(feature = "pages")] {
                Pixel(id: CounterId) "GET" "/pixel/{id}.gif" "pixel"
                    Right::Image(Scope::Write, id.as_str()), UnknownQuery::Ignored =>
                        embeds::pixel(context, &caller, id).await;
                Hit(id: CounterId) "GET" "/hit/{id}" "hit"
                    Right::Image(Scope::Write, id.as_str()), UnknownQuery::Ignored =>
                        embeds::hit(context, &caller, id).await;
                Badge(id: CounterId) "GET" "/badge/{id}.svg" "badge"
                    Right::Image(Scope::Read, id.as_str()), UnknownQuery::Ignored =>
                        embeds::badge(context, &caller, id).await;
                Script "GET" "/tally.js" "script"
                    Right::Everybody, UnknownQuery::Ignored => files::script(&context.host);
                Dashboard(file: Option<String>) "GET" "/dashboard{/file}" "dashboard"
                    Right::Everybody, UnknownQuery::Ignored => files::dashboard(&context.host, file.as_deref());
            }
            #[cfg(feature = "queue")] {
                Event "POST" "/api/event" "api_event"
                    Right::Somewhere(Scope::Write, &[]) => queue::event(context, &caller).await;
                Count "GET" "/api/counter" "api_counter"
                    Right::Named(Scope::Read) => queue::counter(context, &caller).await;
                DeadLetters "GET" "/api/dead-letters" "api_dead_letters"
                    Right::Counter(Scope::Admin, "") => queue::dead_letters(context).await;
            }
            #[cfg(feature = "redis")] {
                ImportHll(id: CounterId) "PUT" "/counters/{id}/uniques/hll" "hll_import"
                    Right::Write(id.as_str(), Permission::Hll) => hll::import(context, id).await;
                // Answered before routing, in these forms and by paths.
                Redis "POST" "/redis" "redis"
                    Right::Somewhere(Scope::Read, &[]) => Ok(Answer::text(String::new()));
                RedisPipeline "POST" "/redis/pipeline" "redis_pipeline"
                    Right::Somewhere(Scope::Read, &[]) => Ok(Answer::text(String::new()));
                RedisTransaction "POST" "/redis/multi-exec" "redis_transaction"
                    Right::Somewhere(Scope::Read, &[]) => Ok(Answer::text(String::new()));
            }
        }
    };
}
pub use route_table;
