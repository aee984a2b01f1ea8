# bash completion for ditrace: the program itself knows what may follow.
_ditrace() {
	local line word=${COMP_WORDS[COMP_CWORD]} program
	[ "$word" = = ] && word=
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		:file)
			compopt -o filenames 2>/dev/null
			while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$word")
			;;
		:program\ *)
			program=$((${line#:program } + 2))
			if declare -F _command_offset >/dev/null; then
				_command_offset "$program"
			elif [ "$program" = "$COMP_CWORD" ]; then
				while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -c -f -- "$word" | sort -u)
			else
				compopt -o default 2>/dev/null
			fi
			;;
		*)
			COMPREPLY+=("${line%%$'\t'*}")
			;;
		esac
	done < <("${COMP_WORDS[0]}" --complete "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$word" 2>/dev/null)
} &&
	complete -F _ditrace ditrace
