_weft() {
    local word before joins=''
    local -a words=() offered=()
    local -i index=-1 number=-1
    for word in "${COMP_WORDS[@]}"; do
        number+=1
        if ((number == COMP_CWORD)) && [[ $word != [=:] ]]; then
            word=$2
            # Behind a space a new word begins.
            [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && joins=''
        fi
        if [[ $word == [=:] && $index -ge 0 ]]; then
            words[index]+=$word
            joins=yes
        elif [[ $joins ]]; then
            words[index]+=$word
            joins=''
        else
            index+=1
            words[index]=$word
        fi
        ((number == COMP_CWORD)) && break
    done
    before=${words[index]%"$2"}
    IFS=$'\013' read -r -d '' -a offered < <(
        _CLAP_IFS=$'\013' _CLAP_COMPLETE_INDEX=$index WEFT_COMPLETE=bash weft -- "${words[@]}" 2>/dev/null
    )
    COMPREPLY=("${offered[@]#"$before"}")
    if [[ ${COMPREPLY-} == *[=/:.] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o nosort -F _weft weft 2>/dev/null || complete -F _weft weft
