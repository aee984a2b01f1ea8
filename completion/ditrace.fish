# fish completion for ditrace: the program itself knows what may follow.
function __ditrace_complete
	set -l words (commandline -opc)
	set -l word (commandline -ct)
	for line in ($words[1] --complete $words[2..-1] "$word" 2>/dev/null)
		switch $line
			case :file
				__fish_complete_path "$word"
			case ':program *'
				set -l program (math (string replace ':program ' '' -- $line) + 3)
				set -l all $words "$word"
				__fish_complete_subcommand --commandline $all[$program..-1]
			case '*'
				echo $line
		end
	end
end
complete -c ditrace -f -a '(__ditrace_complete)'
