# What Redis's suites ask of a server's configuration and functions is answered here: Tally has none. This is appended
# to a copy of the suites' client.
rename ::redis::__dispatch__ ::redis::__to_server__
proc ::redis::__dispatch__ {id method args} {
    if {!$::redis::deferred($id) && $::redis::blocking($id)} {
        switch -- [string tolower $method] {
            config {
                if {[string tolower [lindex $args 0]] eq {get}} { return [list [lindex $args 1] 0] }
                return OK
            }
            function { return OK }
        }
    }
    uplevel 1 [list ::redis::__to_server__ $id $method {*}$args]
}
