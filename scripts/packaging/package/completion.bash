# Completes poller's verbs, options, pods, nodes and more. In ~/.bashrc:
#   eval "$(poller completion)"
# In ~/.zshrc, after `autoload -U compinit bashcompinit && compinit && bashcompinit`, the same line.
_poller() {
    local IFS=$'\n' said directive
    said=$(kubectl_complete-poller "${COMP_WORDS[@]:1:$COMP_CWORD}" 2>/dev/null) || return
    directive=${said##*:}
    COMPREPLY=(${said%:*})
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY+=($(compgen -W $'demo\nlearn\ncompletion' -- "${COMP_WORDS[1]}"))
    fi
    if [ $((directive & 2)) != 0 ]; then compopt -o nospace 2>/dev/null; fi
    if [ "$directive" = 0 ]; then compopt -o default 2>/dev/null; fi
    return 0
}
complete -F _poller poller
